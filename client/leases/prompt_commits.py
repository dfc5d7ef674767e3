"""Commits the offsets that no pull has carried in time; `client/leases/commit_waits.py` decides which."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from client.leases.commit_waits import CommitWaits
from client.pull.owned_queue import OwnedQueue


class PromptCommits:
    """The task of one consumer; `commit` sends the offsets of queues, and must not raise."""

    def __init__(self, commit: Callable[[list[OwnedQueue]], Awaitable[None]]) -> None:
        self._commit = commit
        self._waits: CommitWaits[OwnedQueue] = CommitWaits()
        self._any = anyio.Event()

    def record(self, owned: OwnedQueue) -> None:
        """Record that messages of a queue have finished, the first since its last commit was sent."""
        self._waits.add(owned, asyncio.get_running_loop().time())
        self._any.set()

    async def run(self) -> None:
        """Run until cancelled, with one request at a time: a broker that hangs is not sent a thousand. Harmless."""
        while True:
            deadline = self._waits.next_deadline()
            if deadline is None:
                self._any = anyio.Event()
                await self._any.wait()
            else:
                await anyio.sleep_until(deadline)
                await self._commit(self._waits.remove_due(anyio.current_time()))
