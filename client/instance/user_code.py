"""Calls of user code: the context in which they run, and which exceptions are a failure of the call.

Whatever user code raises, its call has failed and nothing else happens: a message is redelivered, a check is not
answered. That holds for every class: CancelledError comes out of a listener that awaits a task which other code has
cancelled, StopIteration out of `next()` on an empty iterator, GeneratorExit out of a generator that was closed. Only
three exceptions are not failures of the call:

    a cancellation of the call itself      `Task.cancelling()` has grown since the call began
    KeyboardInterrupt, SystemExit          they end the consumer and then the process: see `background.py`
    GeneratorExit in a dead coroutine      its event loop is gone, and the garbage collector closes it

Each call runs in a copy of the context in which its function was given to the client. So a context variable that one
call sets is not visible in another one, and not in the tasks of the client.

A plain function runs in a thread, and its exception comes back as a value. As the exception of a future it would be
lost (StopIteration, which no future takes) or would look like a cancellation of the task that awaits the future
(CancelledError of asyncio and of `concurrent.futures`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, copy_context
from types import coroutine
from typing import Any, cast

logger = logging.getLogger(__name__)

EXITS = (KeyboardInterrupt, SystemExit)
"""Exceptions by which code ends its process."""


def is_failure(error: BaseException, task: asyncio.Task[Any] | None, cancelling: int) -> bool:
    """Whether an exception of user code is a failure of the call, which a task has made; see the module header.

    `cancelling` is `task.cancelling()` at the begin of the call.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() <= cancelling
    if isinstance(error, GeneratorExit):
        return _current_task() is task
    return not isinstance(error, EXITS)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None


def function_name(function: object) -> str:
    """The name of a function for the log, with its module."""
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):  # an object with `__call__`, or a partial
        function, name = type(function), type(function).__qualname__
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


class UserCode:
    """A function of the user, with the context in which it was given to the client.

    Attributes:
        function: the function.
        is_async: whether it is an `async def`, or an object whose `__call__` is one.
        name: its name for the log.
        context: the context; each call gets a copy.
    """

    __slots__ = ("context", "function", "is_async", "name")

    def __init__(self, function: Callable[..., Any]) -> None:
        call = getattr(function, "__call__", function)  # noqa: B004 - an object with an `async def __call__` counts too
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self.name = function_name(function)
        self.context = copy_context()

    async def __call__(self, executor: Executor | None, *args: object) -> object:
        """Call the function and return its result: an async one here, a plain one in a thread of the executor.

        Raises:
            BaseException: whatever the function raised; see `is_failure`.

        Cancellation: reaches an async function where it waits; a plain one runs to its end in its thread.
        """
        context = self.context.copy()
        if self.is_async:
            result: object = context.run(self.function, *args)
        else:
            in_thread = asyncio.get_running_loop().run_in_executor
            result, error = await in_thread(executor, _outcome, context, self.function, args)
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # it has a traceback with this frame
        # A lambda or a decorator around an `async def` looks plain.
        return await run_in(context, _awaited(result)) if inspect.isawaitable(result) else result


def _outcome(
    context: Context, function: Callable[..., object], args: tuple[object, ...]
) -> tuple[object, BaseException | None]:
    """Call a function in a thread; returns its result, or None and its exception."""
    try:
        return context.run(function, *args), None
    except BaseException as error:
        return None, error


async def _awaited(result: Awaitable[object]) -> object:
    return await result


@coroutine
def run_in(context: Context, running: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
    """Await a coroutine each of whose steps runs in a context that is not the one of the task."""
    try:
        waits_for = context.run(running.send, None)
    except StopIteration as stop:
        return stop.value
    result: object = yield from cast("Generator[Any, Any, object]", go_on(context, running, waits_for))
    return result


@coroutine
def go_on(context: Context, running: Coroutine[Any, Any, object], waits_for: Any) -> Generator[Any, Any, object]:
    """Await the rest of a coroutine that was started by hand in a context and waits for something."""
    resume: Callable[..., Any]
    while True:
        try:
            value = yield waits_for
            resume = running.send
        except BaseException as error:  # cancellation too: it is for the user's code, which is resumed with it
            value, resume = error, running.throw
        try:
            waits_for = context.run(resume, value)
        except StopIteration as stop:
            return stop.value


def log_failure(log: logging.Logger, error: BaseException, text: str, *args: object) -> None:
    """Log an exception of user code with its traceback, or without it if it cannot be printed.

    The text of an exception is made by its own class, and a handler may raise what that raises.
    """
    try:
        log.error(text, *args, exc_info=error)
    except Exception:  # whatever `__str__` or `__repr__` of the user's exception raises
        log.error("%s: %s (it cannot be printed)", text % args, type(error).__name__)


def observing(function: Callable[..., object], subject: str) -> Callable[..., None]:
    """Wrap a plain function that only observes, called `subject` in the log: its exception is logged and ignored."""

    def observe(*args: object) -> None:
        try:
            function(*args)
        except EXITS:
            raise
        except BaseException as error:  # of any class: a plain function cannot be cancelled, so it raised this itself
            log_failure(logger, error, "the %s failed (%s)", subject, function_name(function))

    return observe
