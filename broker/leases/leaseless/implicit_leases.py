"""Leases that the broker takes for members that ask for none, and the end of such a lease. Pure.

RocketMQ's own clients have no leases: a member pulls a queue as soon as its own allocation gives it the queue, even if
another member still consumes the queue. So the broker itself grants the lease when a member first pulls a free queue:
an *implicit* lease. While another member has the queue, the pull waits. A member sends no request when it stops to
consume a queue; but once another member wants the queue, the lease is *contested*, and the broker judges by the
requests of the owner:

    drained     Its pulls no longer bring anything new, and it has committed every message that it was sent. So it
                is processing no message of the queue, and the next member may have the queue. This is certain.
    abandoned   It does not pull, and flow control cannot be the reason: RocketMQ's clients stop pulling only with 1000
                messages or 100 MiB unprocessed. Or it neither pulls nor commits; a live client commits every 5 s. This
                is inferred: a listener may still have a message, and messages that were not committed come twice. The
                event that reports it has the detail "given up".

A lease is contested at the earliest `IMPLICIT_LEASE_TENURE_S` after it was taken. Otherwise, while two members disagree
about the owner of a queue, it would go back and forth between their pulls, and neither would get a message.

A lease that a member has asked for (RocketMQ's lock of an orderly consumer) is not implicit: it ends when its owner
releases it or leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.leases.table import QueueKey
from model.limits import (
    IMPLICIT_LEASE_COMMIT_SILENCE_S,
    IMPLICIT_LEASE_DRAIN_S,
    IMPLICIT_LEASE_PULL_SILENCE_S,
    IMPLICIT_LEASE_TENURE_S,
    MAX_PROCESS_QUEUE_BYTES,
    MAX_PROCESS_QUEUE_COUNT,
)

NEVER = float("inf")

LeaseKey = tuple[str, QueueKey]
"""Group and queue."""


@dataclass(slots=True)
class ImplicitLease:
    """The record of one implicit lease and of its owner's requests; times are loop time in seconds."""

    begun_at: float
    pulled_at: float
    committed_at: float
    contested_at: float = NEVER  # from when the lease may end because another member wants the queue
    is_announced: bool = False  # whether the owner's parked pull was run again after `contested_at`
    sent_bytes: int = 0  # sent to the owner since it last had nothing unprocessed
    is_before_group_offset: bool = True  # whether the owner has not yet pulled from the group's offset on

    def is_contested(self, now: float) -> bool:
        """Whether another member wants the queue."""
        return now >= self.contested_at


class ImplicitLeases:
    """The implicit leases of one broker."""

    def __init__(self) -> None:
        self._leases: dict[LeaseKey, ImplicitLease] = {}
        self._contested: dict[LeaseKey, ImplicitLease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def get(self, queue: LeaseKey) -> ImplicitLease | None:
        """The record of a queue, or None."""
        return self._leases.get(queue)

    def record_pull(self, queue: LeaseKey, now: float) -> ImplicitLease:
        """Record a pull of the owner; the first one makes the record."""
        lease = self._leases.get(queue)
        if lease is None:
            lease = self._leases[queue] = ImplicitLease(now, now, now)
        lease.pulled_at = now
        return lease

    def record_commit(self, queue: LeaseKey, now: float) -> bool:
        """Record a commit of the owner; returns whether the lease is contested: then this commit may have ended it."""
        lease = self._leases.get(queue)
        if lease is None:
            return False
        lease.committed_at = now
        return lease.is_contested(now)

    def contest(self, queue: LeaseKey, now: float) -> float | None:
        """Record that another member wants the queue; returns the time from which on that counts, None if not new."""
        lease = self._leases.get(queue)
        if lease is None or lease.contested_at != NEVER:
            return None
        lease.contested_at = max(now, lease.begun_at + IMPLICIT_LEASE_TENURE_S)
        self._contested[queue] = lease
        return lease.contested_at

    def forget(self, queue: LeaseKey) -> None:
        """Forget a lease that was freed, or that its owner has now requested itself."""
        self._leases.pop(queue, None)
        self._contested.pop(queue, None)

    def forget_all(self, is_gone: Callable[[LeaseKey], bool]) -> None:
        """Forget the queues of a deleted group or topic: a contested one among them would never be freed."""
        for queue in [queue for queue in self._leases if is_gone(queue)]:
            self.forget(queue)

    def contested_leases(self) -> list[tuple[LeaseKey, ImplicitLease]]:
        """The contested leases, in the order in which they were contested."""
        return list(self._contested.items())


def contested_lease_ends_at(lease: ImplicitLease, unprocessed: int) -> float:
    """When a contested lease ends if its owner sends nothing until then: at once if it is drained.

    `unprocessed` is the number of messages that the owner was sent and has not committed.
    """
    if unprocessed <= 0:
        return lease.contested_at
    silent_from = max(lease.pulled_at, lease.contested_at + IMPLICIT_LEASE_DRAIN_S)
    may_be_flow_control = unprocessed >= MAX_PROCESS_QUEUE_COUNT or lease.sent_bytes >= MAX_PROCESS_QUEUE_BYTES
    if not may_be_flow_control:
        return silent_from + IMPLICIT_LEASE_PULL_SILENCE_S
    return max(silent_from, lease.committed_at) + IMPLICIT_LEASE_COMMIT_SILENCE_S
