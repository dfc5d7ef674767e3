"""Tasks that live from a `start()` to a `shutdown()`.

A task group belongs to a block of code; a client that is started in one function and shut down in another has no such
block. `BackgroundTasks` gives it one: a task that holds a task group open. It is the only place of the
project that makes a task outside a task group, and everything that runs in it is inside one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup

from model.errors import IllegalOperation

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """One task group in a task of its own; its name is for debuggers and the log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._group: TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the task group. Cancellation: it is closed again."""
        ready = anyio.Event()
        self._task = asyncio.get_running_loop().create_task(self._hold(ready), name=self._name)
        self._task.add_done_callback(_seen)
        try:
            await ready.wait()
        except BaseException:
            self._task.cancel()
            raise

    async def _hold(self, ready: anyio.Event) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                ready.set()
                await anyio.sleep_forever()
        except ExceptionGroup:
            # Logged here, because `wait` may have no caller, and the work of these tasks has stopped.
            logger.critical(
                "%s: a background task failed, and all were ended; this is a bug", self._name, exc_info=True
            )
            raise

    @property
    def running(self) -> bool:
        """Whether `start_soon` would run something."""
        return self._group is not None and not self._group.cancel_scope.cancel_called

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> None:
        """Run a coroutine function until it ends or `stop` is called; IllegalOperation unless running."""
        if self._group is None or not self.running:
            raise IllegalOperation(f"{self._name} is not running")
        self._group.start_soon(function, *args)

    async def wait(self) -> None:
        """Wait until `stop`; raise what a task raised, if one did: that is a bug. Cancellation: the tasks go on."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Cancel every task and wait for them. Idempotent. Cancellation: only after they have ended."""
        if self._task is None or self._group is None:
            return
        self._group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])


def _seen(task: asyncio.Task[None]) -> None:
    """Mark the failure as seen, or asyncio logs it again when the task is collected."""
    if not task.cancelled():
        task.exception()
