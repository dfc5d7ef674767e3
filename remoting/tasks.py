"""Runs tasks of servers and clients: in the background of a block, or side by side until all have ended.

`OwningLoop` keeps a client to the process and the event loop in which its tasks run.

anyio wraps an error that leaves a task group in an ExceptionGroup, even the error of the block. A caller of a context
manager with internal tasks should not see that: `except ConfigError` around it has to work.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from threading import get_ident
from typing import Any, TypeVar
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup

from model.errors import IllegalOperation

T = TypeVar("T")


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """Open a task group whose tasks are cancelled when the block ends.

    Raises:
        BaseException: the error of the block, or of the task whose failure cancelled the block; a group only if there
            are several.

    Cancellation: the tasks are cancelled with the block and waited for.
    """
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            finally:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        failure = group.exceptions[0]
    if failure is not None:
        # Raised outside the handler, where it would get the group as its context.
        raise failure


async def run_together(jobs: Sequence[Callable[[], Coroutine[Any, Any, object]]]) -> None:
    """Run coroutine functions side by side until all have ended.

    They handle their own expected errors; one that fails cancels the others. A single one, which is the common case
    (one broker to ask, one consumer), runs without the cost of a task group, and the first of several without the cost
    of a task.

    Raises:
        BaseException: the error of the only one; an ExceptionGroup if there were several.

    Cancellation: all of them are cancelled and waited for.
    """
    if len(jobs) == 1:
        await jobs[0]()
    elif jobs:
        async with anyio.create_task_group() as tasks:
            for job in jobs[1:]:
                tasks.start_soon(job)
            await jobs[0]()


class OwningLoop:
    """The process and the event loop that a client belongs to: those in which it was created.

    A forked process shares the sockets of its parent, and its messages would have the ids of the parent's. In a second
    event loop a request would be sent, and its answer would arrive in the first one. So both are refused before
    anything is sent. The check runs for each message: a fork changes `_thread`, so that only threads have to be
    compared.
    """

    __slots__ = ("__weakref__", "_is_running", "_loop", "_pid", "_thread")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_running = self._loop.is_running
        self._pid, self._thread = os.getpid(), get_ident()
        _homes.add(self)

    @property
    def is_in_parent(self) -> bool:
        """Whether this process was forked from the one that the client belongs to."""
        return os.getpid() != self._pid

    def guard(self, function: Callable[[str], T]) -> Callable[[str], T]:
        """Put the check before a function that is called with each message."""

        def guarded(argument: str) -> T:
            if get_ident() != self._thread or not is_running():
                self._check_home()
            return function(argument)

        is_running = self._is_running
        return guarded

    def check(self) -> None:
        """Raise IllegalOperation in another process or event loop."""
        if get_ident() != self._thread or not self._is_running():
            self._check_home()

    def _check_home(self) -> None:
        if self.is_in_parent:
            raise IllegalOperation(
                f"this client belongs to process {self._pid}, and process {os.getpid()} was forked from it: nothing "
                "was sent; make and start a client in each process"
            )
        if asyncio._get_running_loop() is not self._loop:
            raise IllegalOperation(
                "this client was started in another event loop: nothing was sent; make and start a client in each "
                "event loop, or call this one with asyncio.run_coroutine_threadsafe"
            )
        self._thread = get_ident()  # its loop now runs in another thread


_homes: WeakSet[OwningLoop] = WeakSet()


def _forked() -> None:
    for home in _homes:
        home._thread = 0


os.register_at_fork(after_in_child=_forked)
