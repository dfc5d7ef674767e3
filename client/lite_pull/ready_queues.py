"""ReadyQueues: the queues that have messages to hand out, in the order in which a poll looks at them.

A queue stands in line once, and behind the others again when a poll has taken from it and left something: a backlog
does not starve them. One that was given up, is paused, or has a lease that may have ended leaves the line; whoever ends
the pause, or confirms the lease, puts it back.
"""

from __future__ import annotations

import asyncio
from collections import deque

import anyio

from client.pull.owned_queue import OwnedQueue
from model.message import MessageExt


class ReadyQueues:
    """The line of one consumer; at most one task waits."""

    def __init__(self) -> None:
        self._ready: deque[OwnedQueue] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def waited_for(self) -> bool:
        """Whether a task waits."""
        return self._waiting is not None

    def arrived(self, owned: OwnedQueue) -> None:
        """Say that a queue may have messages to hand out."""
        if not owned.offered:
            owned.offered = True
            self._ready.append(owned)
            self._wake()

    def close(self) -> None:
        """End the wait of whoever waits, and every later one: nothing is handed out any more."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is something to take, the line is closed, or the time is over. Cancellation: harmless."""
        loop = asyncio.get_running_loop()
        with anyio.move_on_after(timeout_s):
            while not self._closed and not self._holds_messages(loop.time()):
                self._waiting = loop.create_future()
                try:
                    await self._waiting
                finally:
                    self._waiting = None

    def take(self, max_messages: int, now: float) -> list[tuple[OwnedQueue, list[MessageExt]]]:
        """Hand out messages.

        Args:
            max_messages: at most so many.
            now: loop time in seconds.

        Returns:
            Some of each of the first queues in line, in the order of their offsets.
        """
        taken: list[tuple[OwnedQueue, list[MessageExt]]] = []
        while max_messages and not self._closed and self._holds_messages(now):
            owned = self._ready.popleft()
            owned.offered = False
            messages = owned.process_queue.next_batch(max_messages, now)
            taken.append((owned, messages))
            max_messages -= len(messages)
            self.arrived(owned)
        return taken

    def _holds_messages(self, now: float) -> bool:
        while self._ready:
            owned = self._ready[0]
            if not owned.paused and owned.ready(now):
                return True
            self._ready.popleft().offered = False
        return False
