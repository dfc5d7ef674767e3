"""BackgroundTasks: the tasks of a client, which run from its `start()` to its `shutdown()`.

A task group belongs to a block of code; a client that is started in one function and shut down in another has no such
block. `BackgroundTasks` gives it one: a task that holds a task group open. It is the only place of the
project that makes a task outside a task group, and everything that runs in it is inside one.

The tasks end by `stop`. Any other end is a failure: a task raised, which is a bug; or other code cancelled one of them,
or the task that holds them, as `asyncio.run` does at its end. Then all tasks end, the failure is logged as CRITICAL,
`wait` raises it, and `on_failure` is called, in which a consumer leaves its group. KeyboardInterrupt and SystemExit of
user code end the tasks in the same way, but their purpose is the end of the process: they are raised only after
`on_failure`, by `wait`, or here if no task waits. Raised at once, they would stop the event loop before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from client.instance.user_code import EXITS, function_name, is_failure
from model.arguments import short_repr
from model.errors import ClientFailed, IllegalOperation, RlabError

logger = logging.getLogger(__name__)

OnFailure = Callable[[BaseException, bool], Awaitable[bool]]
"""Gets the reason of a failure, and whether to hurry, because all tasks of the event loop were cancelled.

It returns whether another task raises the reason if that is one of `EXITS`.
"""


class BackgroundTasks:
    """A task group that a separate task holds open; its name is for debuggers and the log."""

    def __init__(self, name: str, on_failure: OnFailure | None = None) -> None:
        self._name = name
        self._on_failure = on_failure
        self._group: TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] | None = None  # done when `wait` is to return or raise
        self._waiting = 0
        self._stopped = False
        self._reason: BaseException | None = None
        self._failure = ""

    async def start(self) -> None:
        """Open the task group. Cancellation: it is closed again."""
        ready = anyio.Event()
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        self._task = loop.create_task(self._hold(ready), name=self._name)
        self._task.add_done_callback(self._ended)
        try:
            await ready.wait()
        except BaseException:
            self._stopped = True
            self._task.cancel()
            raise

    async def _hold(self, ready: anyio.Event) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio runs it"
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                ready.set()
                await anyio.sleep_forever()
        except asyncio.CancelledError as error:
            if self._stopped:
                raise
            self._reason = self._reason or error
        if self._reason is None:
            return
        hurry = task.cancelling() > 0
        while task.cancelling():
            task.uncancel()
        await self._fail(self._reason, hurry)

    async def _fail(self, reason: BaseException, hurry: bool) -> None:
        all_cancelled = isinstance(reason, asyncio.CancelledError) and (hurry or not self._failure)
        if all_cancelled:
            self._failure = (
                f"{self._name} has ended without a shutdown(): all its tasks were cancelled by other code, as at the "
                "end of the event loop. Use 'async with', or call shutdown() before"
            )
        # The traceback of a wait that was cancelled is useless.
        logger.critical("%s", self._failure, exc_info=None if all_cancelled else reason)
        if not isinstance(reason, EXITS):
            self._end_waits()
        raised_elsewhere = False
        if self._on_failure is not None:
            try:
                raised_elsewhere = await self._on_failure(reason, hurry)
            except Exception:
                logger.exception("%s could not be ended in order", self._name)
        if isinstance(reason, EXITS) and not self._waiting and not raised_elsewhere:
            raise reason

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._end_waits()
        if not task.cancelled():
            task.exception()  # marks it as seen, or asyncio logs it again when the task is collected

    def _end_waits(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    @property
    def running(self) -> bool:
        """Whether `start_soon` would run something."""
        return self._group is not None and not self._group.cancel_scope.cancel_called

    @property
    def failed(self) -> bool:
        """Whether the tasks have ended without `stop`, or are about to."""
        return self._reason is not None

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> None:
        """Run a coroutine function until it ends or `stop` is called; IllegalOperation unless running."""
        if self._group is None or not self.running:
            raise IllegalOperation(f"{self._name} is not running")
        self._group.start_soon(self._run, function, args, name=f"{self._name}: {function_name(function)}")

    async def _run(self, function: Callable[..., Coroutine[Any, Any, Any]], args: tuple[object, ...]) -> None:
        try:
            await function(*args)
        except asyncio.CancelledError as error:
            self.fail(error, function_name(function))
            raise
        except GeneratorExit:  # the event loop is gone, and the garbage collector closes the coroutine
            raise
        except BaseException as error:
            self.fail(error, function_name(function))

    def fail(self, reason: BaseException, where: str) -> None:
        """End all tasks because of an error in one of them, or in other work for their owner; `where` is for the log.

        No effect if they are being ended already.
        """
        if self._group is None or not self.running:
            return
        self._reason = reason
        cancelled = isinstance(reason, asyncio.CancelledError)
        problem = "was cancelled by other code" if cancelled else f"raised {short_repr(reason, 500)}"
        self._failure = f"{self._name} has ended without a shutdown(): {where} {problem}"
        self._group.cancel_scope.cancel()

    def isolating_failures(self, where: str) -> AbstractContextManager[None]:
        """Let an unexpected error of a block end these tasks, and not the task of the block.

        For work that a shared task does for the owner of these tasks. An RlabError is expected, and goes on.
        """
        return _Isolation(self, where)

    def check(self) -> None:
        """Raise the failure, if there was one.

        Raises:
            ClientFailed: the tasks have ended without `stop`.
            KeyboardInterrupt, SystemExit: user code has ended them so.
        """
        if isinstance(self._reason, EXITS):
            raise self._reason
        if self._reason is not None:
            raise ClientFailed(f"{self._failure}; start a new one") from self._reason

    async def wait(self) -> None:
        """Wait until `stop`, or raise the failure; see `check`. Cancellation: the tasks go on."""
        if self._over is None:
            return
        self._waiting += 1
        try:
            await asyncio.shield(self._over)
        finally:
            self._waiting -= 1
        self.check()

    async def left(self) -> None:
        """After a failure, wait for the end of `on_failure`; else return at once. Cancellation: harmless."""
        if self._reason is not None and self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Cancel every task and wait for them, and for `on_failure`. Idempotent. Cancellation: only after that."""
        if self._task is None or self._group is None:
            return
        self._stopped = True
        self._group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])


class _Isolation:
    """The block of `isolating_failures`. A class, because a generator costs five calls more, with each idle persist."""

    __slots__ = ("_cancelling", "_task", "_tasks", "_where")

    def __init__(self, tasks: BackgroundTasks, where: str) -> None:
        self._tasks, self._where = tasks, where

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or isinstance(error, RlabError):
            return False
        if not is_failure(error, self._task, self._cancelling) and not isinstance(error, EXITS):
            return False  # a cancellation of the shared task
        self._tasks.fail(error, self._where)
        return True
