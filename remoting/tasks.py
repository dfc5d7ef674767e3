"""Background tasks of a server or client: they live as long as a block, and the block's own error comes out as itself.

anyio wraps whatever leaves a task group in an ExceptionGroup, the error of the block included. A caller of a context
manager that keeps its tasks to itself should not see that: `except ConfigError` around it has to work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """Open a task group whose tasks are cancelled when the block ends.

    Yields:
        The group.

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
        # Out here and not in the handler, where it would be given the group as its context.
        raise failure
