"""The threads of one consumer's plain listeners: as many as it has workers, and nobody else's.

asyncio's own pool has a few more threads than the machine has cores, for the whole process. Listeners that block would
get no more than that, whatever their consumer's workers; a few that hang would stop every other consumer, and what a
broker in the same process does with its files.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import anyio

from client.instance.background import Background


class ListenerThreads:
    """Threads that are made when a plain listener is first called, and let go when the consumer ends.

    Its end waits for no thread, as that would stop the loop. A listener that still runs then runs to its own end; what
    it says is heard by nobody, so its messages come again to another member. One that hangs keeps the process from
    ending, as any thread of `concurrent.futures` does.

    Args:
        max_workers: listeners at the same time.
        background: of the consumer.
    """

    def __init__(self, max_workers: int, background: Background) -> None:
        self._max_workers = max_workers
        self._background = background
        self._executor: ThreadPoolExecutor | None = None

    @property
    def executor(self) -> ThreadPoolExecutor:
        """Runs the listeners."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._max_workers, thread_name_prefix="rlab listener")
            if self._background.running:  # else the consumer ends right now, and its threads with this object
                self._background.start_soon(self._hold, self._executor)
        return self._executor

    async def _hold(self, executor: ThreadPoolExecutor) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
