"""Requests of RocketMQ's clients for the lock of a queue that another member still has: parked for a moment. Pure.

A client of RocketMQ that joins asks for its locks at once, while the other members are only being notified. If the
broker refused, the client would ask again a second later at the earliest, because it rebalances at most once a second.
Until then the queue would have no owner. So right after a change of the group the broker lets such a request wait until
the queue is free, for at most `LOCK_HOLD_S`: the client waits a second for an answer, one queue after the other.

    park(("g", t:0), request, until=10.6)
    remove_of_queue(("g", t:0)) -> [request]   the queue is free: it is run again
    expire(10.6) -> []

RocketMQ: RebalanceLockManager, which refuses at once.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from broker.leases.table import QueueKey
from model.limits import MAX_PARKED_LOCKS

LeaseKey = tuple[str, QueueKey]
"""Group and queue."""


class Waiting(Protocol):
    """One request; `until` is the loop time in seconds at which it is answered in any case."""

    @property
    def until(self) -> float:
        """See the class."""
        ...


One = TypeVar("One", bound=Waiting)


class ParkedLocks(Generic[One]):
    """The parked requests of one broker."""

    def __init__(self) -> None:
        self._parked: dict[LeaseKey, list[One]] = {}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def park(self, queue: LeaseKey, lock: One) -> bool:
        """Park a request, unless too many are parked; returns whether it is parked."""
        if self._n >= MAX_PARKED_LOCKS:
            return False
        self._parked.setdefault(queue, []).append(lock)
        self._n += 1
        return True

    def remove_of_queue(self, queue: LeaseKey) -> list[One]:
        """Remove and return the requests for a queue, oldest first."""
        locks = self._parked.pop(queue, [])
        self._n -= len(locks)
        return locks

    def next_deadline(self) -> float | None:
        """When to call `expire`, or None."""
        return min((lock.until for locks in self._parked.values() for lock in locks), default=None)

    def expire(self, now: float) -> list[One]:
        """Remove and return every request for a queue at which one request is due; the others may be parked again."""
        due = [queue for queue, locks in self._parked.items() if any(lock.until <= now for lock in locks)]
        return [lock for queue in due for lock in self.remove_of_queue(queue)]
