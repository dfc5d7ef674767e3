"""ReadyQueues: the queues with fetched messages, in the order in which polls take from them.

A queue is in the list once. If a poll leaves messages in it, it moves to the end, so that a long queue does not starve
the others. A queue that was released, is paused, or whose lease may have expired leaves the list; `arrived` is called
again when the pause ends or the lease is confirmed.
"""

from __future__ import annotations

import asyncio
from collections import deque

import anyio

from client.pull.owned_queue import OwnedQueue
from model.message import MessageExt


class ReadyQueues:
    """The ready queues of one consumer; at most one task waits."""

    def __init__(self) -> None:
        self._ready: deque[OwnedQueue] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def waited_for(self) -> bool:
        """Whether a task waits."""
        return self._waiting is not None

    def arrived(self, owned: OwnedQueue) -> None:
        """Add a queue that may have messages to deliver."""
        if not owned.offered:
            owned.offered = True
            self._ready.append(owned)
            self._wake()

    def close(self) -> None:
        """End the current wait and all later ones: nothing more is delivered."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until a queue is ready, this is closed, or the timeout ends. Cancellation: harmless."""
        loop = asyncio.get_running_loop()
        with anyio.move_on_after(timeout_s):
            while not self._closed and not self._holds_messages(loop.time()):
                self._waiting = loop.create_future()
                try:
                    await self._waiting
                finally:
                    self._waiting = None

    def poll(self, max_messages: int, now: float) -> list[tuple[OwnedQueue, list[MessageExt]]]:
        """Up to `max_messages` messages of the first queues, in the offset order of each; `now` is loop time."""
        polled: list[tuple[OwnedQueue, list[MessageExt]]] = []
        while max_messages and not self._closed and self._holds_messages(now):
            owned = self._ready.popleft()
            owned.offered = False
            messages = owned.process_queue.next_batch(max_messages, now)
            polled.append((owned, messages))
            max_messages -= len(messages)
            self.arrived(owned)
        return polled

    def _holds_messages(self, now: float) -> bool:
        while self._ready:
            owned = self._ready[0]
            if not owned.paused and owned.ready(now):
                return True
            self._ready.popleft().offered = False
        return False
