"""Listeners: their types, their results, and the call itself.

Whatever a listener raises fails its messages and nothing else: `client/instance/user_code.py` has the rule.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from enum import StrEnum
from types import CoroutineType
from typing import Any, cast

from client.instance.user_code import EXITS, UserCode, go_on, is_failure, log_failure
from client.listeners.failed import Failed
from client.listeners.hanging import HangingListeners
from client.listeners.threads import DaemonThreads, ListenerThreads
from model.message import MessageExt
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class ConsumeResult(StrEnum):
    """The result of a listener. RocketMQ: ConsumeConcurrentlyStatus, ConsumeOrderlyStatus."""

    SUCCESS = "SUCCESS"
    """Processed. Without automatic commit: redelivered unless a COMMIT follows."""
    RECONSUME_LATER = "RECONSUME_LATER"
    """Failed: redelivered through the retry topic; in order, retried in its place, and later messages wait for it."""
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    """The name of RECONSUME_LATER in RocketMQ's orderly listeners."""
    COMMIT = "COMMIT"
    """Without automatic commit: commits this batch and all before it that were processed."""
    ROLLBACK = "ROLLBACK"
    """Without automatic commit: all of them are redelivered."""


_SUCCESS = ConsumeResult.SUCCESS  # an attribute of an enum costs more than the rest of a comparison
Result = ConsumeResult | Failed
Messages = tuple[MessageExt, ...]
"""One batch. A tuple, because it is used after the call, when a listener might have removed messages from a list."""
AsyncListener = Callable[[Sequence[MessageExt]], Awaitable[Result | None]]
PlainListener = Callable[[Sequence[MessageExt]], Result | None]
Listener = AsyncListener | PlainListener
"""Gets the messages of one batch, a tuple, all of one queue, in offset order; returning None means success.

A failure that needs its own delay, the DLQ at once, or leaves a part of the batch processed is a `Failed`.

An `async def` runs on the event loop and must not block it; a plain `def` runs in a thread of its consumer, which has
`max_workers` of them, and may block.
"""


class ListenerCall:
    """One subscribed listener, ready to be called in copies of the context of its subscription.

    Attributes:
        name: the topic, for the log.
        is_async: whether it may be called with `start`.
        context: the context of the subscription; each call gets a copy.
    """

    __slots__ = ("_begin", "_code", "_described", "_hanging", "_name", "_threads", "context", "is_async")

    def __init__(self, listener: Listener, name: str, threads: ListenerThreads, hanging: HangingListeners) -> None:
        self._code = UserCode(listener)
        self.is_async, self.context = self._code.is_async, self._code.context
        self._begin = cast("Callable[[Messages], Coroutine[Any, Any, object]]", listener)
        self._name = name
        self._threads = threads
        self._hanging = hanging
        self._described = f"{self._code.name} of {name}"

    async def __call__(self, messages: Messages) -> Result:
        """Call the listener with a batch; returns its result.

        An exception, or a value that is not a result, is logged with the traceback and counts as RECONSUME_LATER. So
        does a call that takes too long, without a traceback.

        Raises:
            KeyboardInterrupt, SystemExit: the listener ends the process.

        Cancellation: reaches an async listener where it waits; a plain one runs to its end in its thread.
        """
        if not self.is_async:
            return await self._watch(messages, self._code(self._threads.executor, messages))
        context = self.context.copy()
        result = context.run(self.start, messages, context)
        if result is _SUCCESS:
            return result
        # To ask whether it is a Result takes ten times as long.
        return await result if isinstance(result, CoroutineType) else cast(Result, result)

    def start(self, messages: Messages, context: Context) -> Result | Coroutine[Any, Any, Result]:
        """Call an async listener, and run it until it waits: its result if it does not, else what to await for that.

        The caller is the task that will await it, and runs this in `context`, which is a copy of the context of the
        subscription. It may serve for the next call too, unless this one waits or has changed it.
        """
        try:
            running = self._begin(messages)
            waits_for = running.send(None)
        except StopIteration as stop:
            if stop.value is None:
                return _SUCCESS
            return self._result(messages, stop.value)
        except BaseException as error:
            return self._failed(messages, error)
        return self._watch(messages, go_on(context, running, waits_for))

    async def _watch(self, messages: Messages, call: Awaitable[object]) -> Result:
        hanging = self._hanging
        loop = hanging.loop or hanging.begin()  # asked of asyncio at each call, it would be a third of the call's cost
        task = asyncio.current_task(loop)
        assert task is not None, "a task runs it"
        cancelling = task.cancelling()
        hanging.running[task] = loop.time(), self._described, messages
        try:
            result = await call
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and task in hanging.timed_out:
                return ConsumeResult.RECONSUME_LATER
            if not is_failure(error, task, cancelling):
                raise
            return self._failed(messages, error)
        finally:
            del hanging.running[task]
            if hanging.timed_out:
                hanging.returned(task)
        return _SUCCESS if result is None else self._result(messages, result)

    def _result(self, messages: Messages, result: object) -> Result:
        """The result of a listener; one that is not a result is the listener's mistake, and so a failure."""
        try:
            return result if isinstance(result, Failed) else ConsumeResult(cast(str, result))
        except BaseException as error:  # of any class: the value compares and prints itself by code of the user
            return self._failed(messages, error)

    def _failed(self, messages: Messages, error: BaseException) -> Result:
        """Log an exception that has failed a batch; one that ends the process is raised again."""
        if isinstance(error, EXITS):
            raise error
        first = messages[0]
        log_values = (self._name, first.queue, first.offset, self._code.name)
        log_failure(logger, error, "the listener of %s failed on %s+%d (%s)", *log_values)
        return ConsumeResult.RECONSUME_LATER


MessageQueueListener = Callable[[str, tuple[MessageQueue, ...], tuple[MessageQueue, ...]], object]
"""Gets (topic, all its queues, those that this member owns), sorted, after a change. RocketMQ: MessageQueueListener.

As with messages, an `async def` runs on the event loop and a plain `def` in a thread.
"""

TopicQueuesListener = Callable[[str, tuple[MessageQueue, ...]], object]
"""Gets (topic, all its queues), sorted, after they changed. RocketMQ: TopicMessageQueueChangeListener."""


async def call_observer(listener: UserCode, *args: object) -> None:
    """Call a listener that only observes; its exception is logged and has no other effect.

    Raises:
        KeyboardInterrupt, SystemExit: the listener ends the process.

    Cancellation: reaches an async listener where it waits; a plain one runs to its end in its thread.
    """
    task = asyncio.current_task()
    cancelling = task.cancelling() if task is not None else 0
    # Calls are so rare that a thread for each costs nothing, and one that hangs delays no other.
    thread = DaemonThreads(1, "rlab observer")
    try:
        await listener(thread, *args)
    except BaseException as error:
        if not is_failure(error, task, cancelling):
            raise
        log_failure(logger, error, "the listener %s failed on %r", listener.name, args)
    finally:
        thread.shutdown()
