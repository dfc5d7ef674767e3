"""The queues with an offset to commit that was not sent yet, each of which waits for a pull to carry it. Pure.

A pull carries the offset to commit of its queue. While a queue has messages that costs nothing; but the pull after the
last one is parked at the broker, and messages that finish then have no pull to go with:

    pull answered, next pull sent        it carries the offset finished before
    message finished at 10.00            add(q, 10.00), unsent
    pull answered, next pull sent        it carries the offset: q is no longer unsent, and nothing is due
    message finished at 10.02            add(q, 10.02)
    10.12, no pull since then            remove_due -> q, and all others that are unsent: one request is enough for all

RocketMQ has no such limit: an offset that no pull carries waits up to 5 s (persistConsumerOffsetInterval).
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from model.limits import COMMIT_WAIT_S


class CommitsByPull(Protocol):
    """A queue; `OwnedQueue` is one."""

    unsent: bool
    """Whether it may have an offset to commit that was not sent; a pull ends that."""


QueueT = TypeVar("QueueT", bound=CommitsByPull)


class CommitWaits(Generic[QueueT]):
    """The waiting queues of one consumer."""

    def __init__(self) -> None:
        self._due: dict[QueueT, float] = {}  # the next one first, because all wait for the same time

    def add(self, queue: QueueT, now: float) -> None:
        """Let a queue wait that has become unsent now, loop time in seconds."""
        self._due.pop(queue, None)
        self._due[queue] = now + COMMIT_WAIT_S

    def next_deadline(self) -> float | None:
        """The time at which to call `remove_due`; None while nothing waits."""
        while self._due:
            queue, deadline = next(iter(self._due.items()))
            if queue.unsent:
                return deadline
            del self._due[queue]
        return None

    def remove_due(self, now: float) -> list[QueueT]:
        """Take all queues that are unsent, once one of them has waited long enough."""
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return []
        due_queues, self._due = self._due, {}
        return [queue for queue in due_queues if queue.unsent]
