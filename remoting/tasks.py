"""Runs tasks of servers and clients: in the background of a block, or side by side until all have ended.

anyio wraps an error that leaves a task group in an ExceptionGroup, the error of the block included. A caller of a
context manager that keeps its tasks to itself should not see that: `except ConfigError` around it has to work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """Open a task group whose tasks are cancelled when the block ends.

    Raises:
        BaseException: the error of the block, or of the task that failed and thereby cancelled the block; a group of
            them only if there are several.

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
        # Not inside the handler, where it would get the group as its context.
        raise failure


async def run_together(jobs: Sequence[Callable[[], Coroutine[Any, Any, object]]]) -> None:
    """Run coroutine functions side by side until all have ended.

    They handle their own expected errors; one that fails cancels the others. A single one, which is the common case
    (one broker to ask, one consumer), runs without the price of a task group, and the first of several without that of
    a task.

    Raises:
        BaseException: what the only one raised; an ExceptionGroup if there were several.

    Cancellation: all of them are cancelled and waited for.
    """
    if len(jobs) == 1:
        await jobs[0]()
    elif jobs:
        async with anyio.create_task_group() as tasks:
            for job in jobs[1:]:
                tasks.start_soon(job)
            await jobs[0]()
