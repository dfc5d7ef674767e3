"""Leases of queues: one member of a group at a time may consume a queue. Pure.

RocketMQ: RebalanceLockManager, which has locks for orderly groups only and lets concurrent consumers overlap. Here
every queue that is consumed in CLUSTERING is leased, with a fencing token: a number that grows with every grant, so
that a commit of an earlier owner can be distinguished from a commit of the current one.

A lease lasts as long as its owner is a member of the group. Heartbeats and pulls keep the membership, and the end of
the membership ends the leases, at once or after a grace period; until then the owner gets a lease back when it asks
again. A member that is refused waits, and is notified when the queue is released. Under the quirk OVERLAPPING_HANDOVER
no member is refused, and every token stays valid.

    acquire(g, A, q)    -> granted token 1
    acquire(g, B, q)    -> refused, A has it; B waits
    release(g, A, q, 1) -> notify B
    check(g, q, A, 1)   -> still valid: no other member has the queue yet, so A's last commit is accepted
    acquire(g, B, q)    -> granted token 2
    check(g, q, A, 1)   -> None from now on
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from model.quirks import Quirk

NEVER = float("inf")


class QueueKey(NamedTuple):
    """A queue of this broker."""

    topic: str
    queue_id: int


@dataclass(slots=True)
class Lease:
    """The state of one queue in one group."""

    owner: str  # client id of the current owner, or of the last one while `held` is false
    token: int  # fencing token of the newest grant
    held: bool = True  # whether the owner has it now
    frees_at: float = NEVER  # loop time in seconds at which the grace period ends; NEVER while its owner is a member
    # Client ids that were refused while it is held, oldest first.
    waiters: dict[str, None] = field(default_factory=dict)
    start: int = -1  # the start offset that its owner got with the grant; -1 before
    served: int = 0  # the first offset that its owner was not sent yet; -1 if it was lost with a restart of the broker


class FreedLease(NamedTuple):
    """A queue whose lease was released, and the members that wait for it; `start` and `served` as in `Lease`."""

    group: str
    queue: QueueKey
    owner: str
    token: int
    waiters: tuple[str, ...]
    start: int = -1
    served: int = 0


class QueueLeases:
    """All leases of one broker. Tokens start above `first_token`, which has to grow over restarts."""

    def __init__(self, first_token: int = 0, *, quirks: frozenset[Quirk] = frozenset()) -> None:
        self._leases: dict[str, dict[QueueKey, Lease]] = {}
        # (group, owner) -> held queues, so that the leave of a member does not scan the leases of its group.
        self._held: dict[tuple[str, str], dict[QueueKey, None]] = {}
        # (group, client id) -> held queues that it was refused, so that the leave of a waiter does not scan them.
        self._waits: dict[tuple[str, str], dict[QueueKey, None]] = {}
        self._token = first_token
        self._leaving: dict[tuple[str, str], float] = {}
        self._overlapping = Quirk.OVERLAPPING_HANDOVER in quirks

    @property
    def newest_token(self) -> int:
        """The token of the last grant in any group: all later grants have higher ones."""
        return self._token

    def restore(self, group: str, queue: QueueKey, owner: str, token: int) -> None:
        """Restore a lease that an earlier run of the broker granted."""
        self._leases.setdefault(group, {})[queue] = Lease(owner, token, served=-1)
        self._held.setdefault((group, owner), {})[queue] = None
        self._token = max(self._token, token)

    def acquire(self, group: str, client_id: str, queue: QueueKey) -> Lease | None:
        """Ask for a queue.

        Returns:
            The lease if the caller has it now: it was free, or is the caller's already (the token stays). None if
            another member has it; the caller waits from now on, and `owner_of` returns the lease.
        """
        leases = self._leases.setdefault(group, {})
        lease = leases.get(queue)
        if lease is not None and lease.held:
            if lease.owner == client_id:
                lease.frees_at = NEVER
                return lease
            if not self._overlapping:
                lease.waiters[client_id] = None
                self._waits.setdefault((group, client_id), {})[queue] = None
                return None
            self._not_held(group, queue, lease)
        self._token += 1
        # An owner that gets a queue back may still process messages that it was sent under its previous lease. With
        # 0 they would be missing from the count of possible duplicates when this lease ends without a release.
        served = lease.served if lease is not None and lease.owner == client_id else 0
        lease = leases[queue] = Lease(client_id, self._token, served=served)
        self._held.setdefault((group, client_id), {})[queue] = None
        return lease

    def owner_of(self, group: str, queue: QueueKey) -> Lease | None:
        """The lease of a queue while a member holds it, or None."""
        lease = self._leases.get(group, {}).get(queue)
        return lease if lease is not None and lease.held else None

    def check(self, group: str, queue: QueueKey, client_id: str, token: int) -> Lease | None:
        """The lease if this token is still valid for commits and pulls: no other member was granted the queue since."""
        lease = self._leases.get(group, {}).get(queue)
        if lease is not None and (self._overlapping or (lease.token == token and lease.owner == client_id)):
            return lease
        return None

    def held_by(self, group: str, client_id: str) -> list[QueueKey]:
        """Queues that the client has, sorted."""
        return sorted(self._held.get((group, client_id), ()))

    def owners(self) -> list[tuple[str, str]]:
        """(group, client id) of every owner, sorted."""
        return sorted(self._held)

    def release(self, group: str, client_id: str, queue: QueueKey, token: int) -> FreedLease | None:
        """Release a queue; None if the caller no longer holds it under this token."""
        lease = self._leases.get(group, {}).get(queue)
        if lease is None or not lease.held or lease.owner != client_id or lease.token != token:
            return None
        return self._free(group, queue, lease)

    def revoke(self, group: str, queue: QueueKey) -> FreedLease | None:
        """Revoke a queue from its owner, if it has one, and invalidate every earlier token; returns the freed queue.

        A release leaves the last token valid, so that the last commit of its owner is accepted; after a reset of the
        offset that commit would undo the reset.
        """
        lease = self._leases.get(group, {}).get(queue)
        if lease is None:
            return None
        freed = self._free(group, queue, lease) if lease.held else None
        del self._leases[group][queue]
        return freed

    def owner_left(self, group: str, client_id: str, *, now: float, grace_s: float) -> list[FreedLease]:
        """End the leases of a client that left its group, at once if the grace is 0; returns the queues freed now."""
        queues = self._held.get((group, client_id))
        if not queues:
            return []
        leases = self._leases[group]
        for queue in queues:
            leases[queue].frees_at = now + grace_s
        self._leaving[(group, client_id)] = now + grace_s
        return self.expire(now) if grace_s <= 0 else []

    def wait_no_longer(self, group: str, client_id: str) -> None:
        """Remove a client that left its group from all waiters; otherwise short-lived members would fill the memory."""
        for queue in self._waits.pop((group, client_id), ()):
            del self._leases[group][queue].waiters[client_id]

    def expire(self, now: float) -> list[FreedLease]:
        """Free the leases whose grace period has ended."""
        freed: list[FreedLease] = []
        for (group, client_id), frees_at in list(self._leaving.items()):
            if frees_at > now:
                continue
            del self._leaving[(group, client_id)]
            for queue in self.held_by(group, client_id):
                lease = self._leases[group][queue]
                # The owner may have come back within the grace period and acquired some of its queues again.
                if lease.frees_at <= now:
                    freed.append(self._free(group, queue, lease))
        return freed

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        return min(self._leaving.values(), default=None)

    def forget_topic(self, topic: str) -> None:
        """Drop every group's leases of a topic that is deleted; waiting members are not notified."""
        for group, leases in self._leases.items():
            for queue in [queue for queue in leases if queue.topic == topic]:
                lease = leases.pop(queue)
                if lease.held:
                    self._not_held(group, queue, lease)

    def forget_group(self, group: str) -> None:
        """Drop every lease of a group that is deleted: its tokens are no longer valid."""
        for queue, lease in self._leases.pop(group, {}).items():
            if lease.held:
                self._not_held(group, queue, lease)
        for owner in [owner for owner in self._leaving if owner[0] == group]:
            del self._leaving[owner]

    def _free(self, group: str, queue: QueueKey, lease: Lease) -> FreedLease:
        lease.held = False
        lease.frees_at = NEVER
        waiters = tuple(lease.waiters)
        self._not_held(group, queue, lease)
        return FreedLease(group, queue, lease.owner, lease.token, waiters, lease.start, lease.served)

    def _not_held(self, group: str, queue: QueueKey, lease: Lease) -> None:
        queues = self._held[(group, lease.owner)]
        del queues[queue]
        if not queues:
            del self._held[(group, lease.owner)]
        for client_id in lease.waiters:
            waits = self._waits[(group, client_id)]
            del waits[queue]
            if not waits:
                del self._waits[(group, client_id)]
        lease.waiters = {}
