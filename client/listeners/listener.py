"""Listeners: their types, their results, and the call itself.

This module is one of the two supervisors that may catch `Exception`: a listener is the user's code, and whatever it
raises fails its messages and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from enum import StrEnum
from types import coroutine
from typing import Any, cast

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
    """The orderly name of the same."""
    COMMIT = "COMMIT"
    """Without automatic commit: commits this batch and all before it that were processed."""
    ROLLBACK = "ROLLBACK"
    """Without automatic commit: all of them are redelivered."""


Result = ConsumeResult | Failed
AsyncListener = Callable[[Sequence[MessageExt]], Awaitable[Result | None]]
PlainListener = Callable[[Sequence[MessageExt]], Result | None]
Listener = AsyncListener | PlainListener
"""Gets the messages of one batch, all of one queue, in offset order; returning None means success.

A failure that needs its own delay, the DLQ at once, or leaves a part of the batch processed is a `Failed`.

An `async def` runs on the event loop and must not block it; a plain `def` runs in a thread of its consumer, which has
`max_workers` of them, and may block.
"""


class ListenerCall:
    """One subscribed listener, ready to be called; the name is for logs."""

    __slots__ = ("_begin", "_described", "_hanging", "_listener", "_name", "_threads", "is_async")

    def __init__(self, listener: Listener, name: str, threads: ListenerThreads, hanging: HangingListeners) -> None:
        self.is_async = _is_async(listener)
        self._listener = listener
        self._begin = cast("Callable[[Sequence[MessageExt]], Coroutine[Any, Any, object]]", listener)
        self._name = name
        self._threads = threads
        self._hanging = hanging
        self._described = f"{getattr(listener, '__qualname__', None) or repr(listener)} of {name}"

    async def __call__(self, messages: Sequence[MessageExt]) -> Result:
        """Call the listener with a batch; returns its result.

        An exception, or a value that is not a result, is logged with the traceback and counts as RECONSUME_LATER. So
        does a call that takes too long, without a traceback.

        Cancellation: reaches an async listener where it waits; a plain one runs to its end in its thread.
        """
        return await self._watch(messages, self._called)

    def start(self, messages: Sequence[MessageExt]) -> Result | Coroutine[Any, Any, Result]:
        """Call an async listener, and run it until it waits: its result if it does not, else what to await for that.

        The caller is the task that will await it. A listener that does not wait costs a third of an awaited call.
        """
        try:
            running = self._begin(messages)
            waits_for = running.send(None)
        except StopIteration as stop:
            if stop.value is None:
                return ConsumeResult.SUCCESS
            try:
                return _checked(stop.value)
            except ValueError:
                return self._failed(messages)
        except Exception:  # the user's code, whatever it raises: its messages have failed
            return self._failed(messages)
        return self._watch(messages, lambda _: _go_on(running, waits_for))

    async def _watch(
        self, messages: Sequence[MessageExt], call: Callable[[Sequence[MessageExt]], Awaitable[object]]
    ) -> Result:
        hanging = self._hanging
        loop = hanging.loop or hanging.begin()  # asked of asyncio at each call, it would be a third of the call's cost
        task = asyncio.current_task(loop)
        hanging.running[task] = loop.time(), self._described, messages
        try:
            # In here, because a value that is not a result is the listener's mistake as well.
            return _checked(await call(messages))
        except asyncio.CancelledError:
            if task not in hanging.timed_out:
                raise
            return ConsumeResult.RECONSUME_LATER
        except Exception:
            return self._failed(messages)
        finally:
            del hanging.running[task]
            if hanging.timed_out:
                hanging.returned(task)

    async def _called(self, messages: Sequence[MessageExt]) -> object:
        if self.is_async:
            return await cast(AsyncListener, self._listener)(messages)
        loop = self._hanging.loop or self._hanging.begin()
        plain = cast(PlainListener, self._listener)
        result: object = await loop.run_in_executor(self._threads.executor, plain, messages)
        # A lambda or a decorator around an `async def` looks plain.
        return await result if inspect.isawaitable(result) else result

    def _failed(self, messages: Sequence[MessageExt]) -> Result:
        """Log the exception that is being handled."""
        first = messages[0]
        logger.exception("the listener of %s failed on %s+%d", self._name, first.queue, first.offset)
        return ConsumeResult.RECONSUME_LATER


def _checked(result: object) -> Result:
    if result is None:
        return ConsumeResult.SUCCESS
    return result if isinstance(result, Failed) else ConsumeResult(cast(str, result))


@coroutine
def _go_on(running: Coroutine[Any, Any, object], waits_for: Any) -> Generator[Any, Any, object]:
    """Await the rest of a coroutine that was started by hand and waits for something."""
    while True:
        thrown: BaseException | None = None
        received: Any = None
        try:
            received = yield waits_for
        except BaseException as error:  # cancellation too: it is for the listener, which is resumed with it
            thrown = error
        try:
            waits_for = running.send(received) if thrown is None else running.throw(thrown)
        except StopIteration as stop:
            return stop.value


MessageQueueListener = Callable[[str, tuple[MessageQueue, ...], tuple[MessageQueue, ...]], object]
"""Gets (topic, all its queues, those that this member owns), sorted, after a change. RocketMQ: MessageQueueListener.

As with messages, an `async def` runs on the event loop and a plain `def` in a thread.
"""

TopicQueuesListener = Callable[[str, tuple[MessageQueue, ...]], object]
"""Gets (topic, all its queues), sorted, after they changed. RocketMQ: TopicMessageQueueChangeListener."""


async def call_observer(listener: Callable[..., object], *args: object) -> None:
    """Call a listener that only observes; its exception is logged and has no other effect.

    Cancellation: reaches an async listener where it waits; a plain one runs to its end in its thread.
    """
    try:
        if _is_async(listener):
            result = listener(*args)
        else:
            # Calls are so rare that a thread for each costs nothing, and one that hangs delays no other.
            thread = DaemonThreads(1, "rlab observer")
            try:
                result = await asyncio.get_running_loop().run_in_executor(thread, lambda: listener(*args))
            finally:
                thread.shutdown()
        if inspect.isawaitable(result):
            await result
    except Exception:
        logger.exception("the listener %r failed on %r", listener, args)


def _is_async(listener: Callable[..., object]) -> bool:
    call = getattr(listener, "__call__", listener)  # noqa: B004 - an object with an `async def __call__` counts too
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)
