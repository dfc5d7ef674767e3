"""Pulls that found nothing and are held until something arrives or their time is over. Pure.

RocketMQ: PullRequestHoldService, which looks at all held pulls every 5 s. Here each is looked at exactly when a message
for its queue arrives, when its own time is over, or when its connection closes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from model.errors import SystemBusy
from model.limits import MAX_HELD_PULLS, MAX_HELD_PULLS_PER_QUEUE
from remoting.command import Command

Conn = TypeVar("Conn")
Key = TypeVar("Key")


@dataclass(slots=True, eq=False)
class HeldPull(Generic[Conn]):
    """One pull that waits.

    Attributes:
        connection: what it came over; any key will do.
        request: the request, to be run again.
        queue: (topic, queue id).
        deadline: loop time in seconds at which it is answered PULL_NOT_FOUND.
    """

    connection: Conn
    request: Command
    queue: tuple[str, int]
    deadline: float


class LongPollTable(Generic[Conn]):
    """All held pulls of one broker."""

    def __init__(self, max_held: int = MAX_HELD_PULLS, max_per_queue: int = MAX_HELD_PULLS_PER_QUEUE) -> None:
        self._by_queue: dict[tuple[str, int], dict[HeldPull[Conn], None]] = {}
        self._by_connection: dict[Conn, dict[HeldPull[Conn], None]] = {}
        # Answered pulls stay in the heap until they surface or are half of it: removing one would cost a search.
        self._deadlines: list[tuple[float, int, HeldPull[Conn]]] = []
        self._order = count()
        self._n = 0
        self._max_held = max_held
        self._max_per_queue = max_per_queue

    def __len__(self) -> int:
        return self._n

    def hold(self, pull: HeldPull[Conn]) -> None:
        """Keep a pull.

        Raises:
            SystemBusy: too many are held, here or on this queue.
        """
        on_queue = len(self._by_queue.get(pull.queue, ()))
        if self._n >= self._max_held or on_queue >= self._max_per_queue:
            raise SystemBusy(f"{on_queue} pulls are held on this queue and {self._n} on this broker: retry later")
        self._by_queue.setdefault(pull.queue, {})[pull] = None
        self._by_connection.setdefault(pull.connection, {})[pull] = None
        self._n += 1
        heapq.heappush(self._deadlines, (pull.deadline, next(self._order), pull))

    def take_queue(self, topic: str, queue_id: int) -> list[HeldPull[Conn]]:
        """Take the pulls of a queue that has something new, oldest first."""
        return self._take(self._by_queue.get((topic, queue_id), ()))

    def take_connection(self, connection: Conn) -> list[HeldPull[Conn]]:
        """Take the pulls of a connection that is gone."""
        return self._take(self._by_connection.get(connection, ()))

    def expire(self, now: float) -> list[HeldPull[Conn]]:
        """Take the pulls whose time is over."""
        due: list[HeldPull[Conn]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            pull = heapq.heappop(self._deadlines)[2]
            if self._is_held(pull):
                due.append(pull)
        return self._take(due)

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        while self._deadlines and not self._is_held(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _is_held(self, pull: HeldPull[Conn]) -> bool:
        return pull in self._by_queue.get(pull.queue, ())

    def _take(self, pulls: Iterable[HeldPull[Conn]]) -> list[HeldPull[Conn]]:
        taken = list(pulls)
        for pull in taken:
            _remove(self._by_queue, pull.queue, pull)
            _remove(self._by_connection, pull.connection, pull)
        self._n -= len(taken)
        if len(self._deadlines) > 2 * self._n + 64:
            self._deadlines = [entry for entry in self._deadlines if self._is_held(entry[2])]
            heapq.heapify(self._deadlines)
        return taken


def _remove(table: dict[Key, dict[HeldPull[Conn], None]], key: Key, pull: HeldPull[Conn]) -> None:
    del table[key][pull]
    if not table[key]:
        del table[key]
