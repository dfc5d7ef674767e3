"""Tasks and cancel scopes whose order in a set is the same in every run.

asyncio and anyio keep the tasks of a group, and the scopes nested in a cancel scope, in sets, and cancel in the order
of the set. By default that order follows addresses in memory, which no seed decides and an earlier test changes.

Invariant: a numbered object keeps its number for life and compares by identity as before; only its hash is the number.

Example: a group of tasks 1, 2 and 3 is cancelled as 1, 2, 3; without this, perhaps as 2, 3, 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator
from typing import Any, ClassVar

import anyio._backends._asyncio as anyio_backend
import anyio._core._eventloop as anyio_eventloop

RETRY_S = 0.01
"""Between two attempts to cancel tasks while a host stands still; shorter than what the clocks of programmes show."""


class _NumberedTask(asyncio.Task[Any]):
    """A task that hashes to its number, which is also in its default name."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number  # first: being made, a task enters the set of all tasks
        super().__init__(coro, **options)
        if not options.get("name"):
            super().set_name(f"Task-{number}")

    def set_name(self, value: object) -> None:
        """Set the name, unless to None: that is how Python 3.13.0 says that the task was given none."""
        if value is not None:
            super().set_name(value)

    def __hash__(self) -> int:
        return self._number


def numbered_task_factory() -> Callable[..., _NumberedTask]:
    """Return a task factory for one loop."""
    numbers = itertools.count(1)

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> _NumberedTask:
        return _NumberedTask(next(numbers), coro, loop=loop, **options)

    return factory


class _NumberedCancelScope(anyio_backend.CancelScope):
    """A cancel scope that hashes to its number."""

    __slots__ = ("_number",)
    numbers: ClassVar[Iterator[int]] = itertools.count()

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(_NumberedCancelScope.numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number

    def _deliver_cancellation(self, origin: anyio_backend.CancelScope) -> bool:
        """See anyio's, which tries again in every loop iteration until the last task has ended.

        A task of a host that stands still does not end, and virtual time never advances while a callback is ready: the
        host would stand still for ever.
        """
        should_retry = super()._deliver_cancellation(origin)
        loop = asyncio.get_running_loop()
        if self._cancel_handle is not None and origin is self and getattr(loop, "holding", None) is not None:
            self._cancel_handle.cancel()
            self._cancel_handle = loop.call_later(RETRY_S, self._deliver_cancellation, origin)
        return should_retry


@contextlib.contextmanager
def numbered_cancel_scopes(numbers: Iterator[int]) -> Generator[None]:
    """Number the cancel scopes that are made in this block, including the ones of anyio's task groups.

    anyio has no public setting for the class, so the name in its asyncio backend is replaced.
    """
    original = anyio_backend.CancelScope, _NumberedCancelScope.numbers
    anyio_backend.CancelScope, _NumberedCancelScope.numbers = _NumberedCancelScope, numbers  # type: ignore[misc]
    try:
        yield
    finally:
        anyio_backend.CancelScope, _NumberedCancelScope.numbers = original  # type: ignore[misc]


@contextlib.contextmanager
def only_asyncio() -> Generator[None]:
    """Let anyio know that asyncio runs, in this block: it asks with every sleep and scope, which is a system call."""
    original = anyio_eventloop.current_async_library
    anyio_eventloop.current_async_library = lambda: "asyncio"
    try:
        yield
    finally:
        anyio_eventloop.current_async_library = original
