"""Ends the wait for listeners that do not return in time: their messages fail, as with RECONSUME_LATER.

Otherwise a listener that hangs would hold its messages, its worker and the committed offset for ever; in order, also
its whole queue; and with POP, the invisible time would be extended for ever. The messages are handled like those of any
failure: they are sent back for the retry topic, or in order retried in their place, and they go to the DLQ after the
last attempt.

An async listener is cancelled, so it has ended before its messages are redelivered. A plain one cannot be stopped: it
goes on in its thread while another call, here or at another member, may get its messages. So a warning and an event
report the timeout before that. Its result is ignored, and commits nothing. RocketMQ: consumeTimeout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from client.instance.events import QueueEvents
from client.instance.instance import ClientInstance
from client.listeners.running_calls import RunningCalls
from model.events import EventKind
from model.message import MessageExt
from remoting.deadline_driver import DeadlineDriver

logger = logging.getLogger(__name__)

Task = asyncio.Task[Any]


class HangingListeners:
    """The listeners of one consumer that have messages.

    Attributes:
        running: the call of each task that is with a listener; entered and removed by `ListenerCall`.
        timed_out: the tasks whose wait was cancelled, and that have not returned.
        loop: the event loop of the calls; None before the first.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._calls: RunningCalls[Task | None] = RunningCalls(timeout_s)
        self._driver = DeadlineDriver(self._calls.next_deadline, self._expire)
        self._instance: ClientInstance | None = None
        self._group = ""
        self.running = self._calls.running
        self.timed_out: dict[Task | None, None] = {}
        self.loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> asyncio.AbstractEventLoop:
        """Record the event loop, which all calls share."""
        self.loop = asyncio.get_running_loop()
        return self.loop

    async def run(self, instance: ClientInstance, group: str) -> None:
        """Watch the calls until cancelled. Cancellation: harmless; calls that run are not ended."""
        self._instance, self._group = instance, group
        self._calls.expire(self.begin().time())
        await self._driver.run()

    def returned(self, task: Task | None) -> None:
        """Record that the call of a task is over, in one way or another."""
        if task in self.timed_out and task is not None:
            del self.timed_out[task]
            task.uncancel()

    def _expire(self, now: float) -> None:
        for task, (_, name, messages) in self._calls.expire(now).items():
            if task is not None:
                if task not in self.timed_out:
                    self._declare(name, messages)
                    self.timed_out[task] = None
                else:
                    task.uncancel()
                task.cancel()

    def _declare(self, name: str, messages: Sequence[MessageExt]) -> None:
        assert self._instance is not None, "only `run` watches"
        first = messages[0]
        logger.warning(
            "%s: group %s: the listener %s has not returned for %g s (consume_timeout_s): %d messages from %s+%d on "
            "count as failed and are redelivered; a later result is ignored",
            *(self._instance.client_id, self._group, name, self._timeout_s, len(messages), first.queue, first.offset),
        )
        QueueEvents(self._instance, self._group).emit(
            EventKind.LISTENER_TIMED_OUT, first.queue, offset=first.offset, n=len(messages), detail=name
        )
