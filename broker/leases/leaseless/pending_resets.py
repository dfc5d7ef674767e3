"""Queues whose offsets were reset while clients of RocketMQ consume them, until one of these follows. Pure.

A member with leases is stopped by the end of its lease. A client of RocketMQ has no lease: when it is notified, it
drops its fetched messages and waits 10 s. In this time it still commits its old offset every 5 s. So from the reset on,
until a member pulls the queue from the new offset:

    commits   of another offset by members without leases are refused: they would undo the reset
    pulls     from another offset bring nothing, because they began before the reset. After `RESET_FOLLOW_S` they are
              answered with the new offset. A lite pull consumer is not notified, so it gets the new offset at once

RocketMQ: Broker2Client.resetOffset, and ConsumerOffsetManager.resetOffsetTable, which forgets it with the first pull. A
broker that restarts in these seconds loses its pending resets, and the old offset may win.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.leases.table import QueueKey
from model.limits import RESET_FOLLOW_S

LeaseKey = tuple[str, QueueKey]
"""Group and queue."""


class PendingReset(NamedTuple):
    """The answer to a pull of a queue that was reset: nothing before `at` (loop time, seconds), then `offset`."""

    offset: int
    at: float


class PendingResets:
    """The resets of one broker that no member has followed yet; bounded by the number of committed offsets."""

    def __init__(self) -> None:
        self._pending: dict[LeaseKey, PendingReset] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, queue: LeaseKey, offset: int, now: float) -> None:
        """Record that a queue was reset to an offset."""
        self._pending[queue] = PendingReset(offset, now + RESET_FOLLOW_S)

    def pulled(self, queue: LeaseKey, offset: int) -> PendingReset | None:
        """Record a pull of a member without leases; returns the reset that it has to follow first, or None.

        None if no reset is pending, or if the pull is from the new offset, which ends the pending reset.
        """
        pending = self._pending.get(queue)
        if pending is None:
            return None
        if pending.offset == offset:
            del self._pending[queue]
            return None
        return pending

    def would_undo_reset(self, queue: LeaseKey, offset: int) -> bool:
        """Whether a commit of a member without leases would undo a reset."""
        pending = self._pending.get(queue)
        return pending is not None and pending.offset != offset

    def followed(self, queue: LeaseKey) -> None:
        """End a pending reset: a member with leases has the queue now, from the new offset on."""
        self._pending.pop(queue, None)

    def forget(self, is_gone: Callable[[LeaseKey], bool]) -> None:
        """Drop the resets of a group or topic that is deleted."""
        for queue in [queue for queue in self._pending if is_gone(queue)]:
            del self._pending[queue]
