"""Takes leases for members that ask for none, and frees them; `broker/leaseless/implicit_leases.py` has the rules.

Pulls ask `ticket` first. `Leases.grant` says when somebody else wants such a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.leases.table import Lease, QueueKey
from broker.leaseless.implicit_leases import TakenKey, given_up_at
from broker.topics.service import Topics
from model.errors import GroupNotExist
from model.events import EventKind
from model.heartbeat import ConsumeType
from model.limits import TAKEN_DRAIN_S, TAKEN_WAIT_S
from model.quirks import Quirk

_SOON = 1e-6


class Ticket(NamedTuple):
    """Whether a pull may read now."""

    lease: Lease | None = None
    wait_s: float = 0.0  # how long it waits at most for a lease, or for what it was sent to be processed; 0 if it reads
    begin: int = 0  # the first offset that it may read: what is before it was processed by another member
    moved_to: int = -1  # the offset of a reset, from which it has to go on; -1 if there was none


_ANYBODY = Ticket()


class TakenLeases(Feature):
    """The leases of one broker that no member has asked for."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, leases: Leases) -> None:
        self._core = core
        self._topics = topics.table
        self._groups = groups.table
        self._leases = leases
        self._taken = leases.taken
        self._overlapping = Quirk.OVERLAPPING_HANDOVER in core.quirks

    def note_pull(self, connection: int, header: Mapping[str, Any], now: float) -> None:
        """Take a pull that has just come as a sign of life, and its commit."""
        group, client_id = header["group"], header["client_id"]
        if not self._leases.takes_for(group, client_id, header["topic"]):
            return
        self._groups.touch(group, client_id, connection, now)
        queue = QueueKey(header["topic"], header["queue_id"])
        lease = self._leases.table.owner_of(group, queue)
        if lease is not None and lease.owner == client_id and self._taken.get((group, queue)) is not None:
            self._taken.pulled((group, queue), now)
            if (commit := header.get("commit")) is not None:
                self._leases.commit_with_pull(group, queue, client_id, lease.token, commit)
                self._free_if_due((group, queue), now)

    def ticket(self, connection: int, header: Mapping[str, Any]) -> Ticket:
        """Whether a pull without a token may read, with the lease that was taken for it.

        GroupNotExist: the member has sent its heartbeat over another connection.
        """
        group, client_id = header["group"], header["client_id"]
        if not self._leases.takes_for(group, client_id, header["topic"]):
            return _ANYBODY
        member = self._groups.find(group, client_id)
        if member is None or member.connection != connection:
            raise GroupNotExist(f"{client_id!r} is not a member of group {group!r} here: send a heartbeat first")
        leases, queue, now = self._leases, QueueKey(header["topic"], header["queue_id"]), self._core.loop.time()
        if (reset := leases.resets.pulled((group, queue), header["offset"])) is not None:
            # One that only reads answers is not notified of the reset.
            is_due = now + _SOON >= reset.at or member.data.consume_type is ConsumeType.ACTIVELY
            return Ticket(moved_to=reset.offset) if is_due else Ticket(wait_s=TAKEN_WAIT_S)
        if self._overlapping:
            return _ANYBODY
        held = leases.table.owner_of(group, queue)
        if (held is None or held.owner != client_id) and member.locks:
            # Parked since before the member unlocked the queue, maybe: it must not take it back.
            return Ticket(None, TAKEN_WAIT_S)
        if held is None or held.owner != client_id:
            held = self._take(group, client_id, queue, held, header["offset"])
            if held is None:
                return Ticket(None, TAKEN_WAIT_S)
            self._taken.pulled((group, queue), now)
        taken = self._taken.get((group, queue))
        if taken is None:
            return Ticket(held)  # the member has asked for it: a lock
        if taken.is_contested(now):
            return Ticket(held, TAKEN_DRAIN_S)
        begin = leases.offsets.read(group, *queue) or 0 if taken.begins else 0
        taken.begins = header["offset"] < begin
        return Ticket(held, 0.0, begin)

    def sent(self, group: str, queue: QueueKey, lease: Lease, n_bytes: int) -> None:
        """Count what a pull brought, for the limits of flow control."""
        taken = self._taken.get((group, queue))
        if taken is not None:
            processed = (self._leases.offsets.read(group, *queue) or 0) >= lease.served
            taken.sent_bytes = n_bytes if processed else taken.sent_bytes + n_bytes

    def _take(self, group: str, client_id: str, queue: QueueKey, held: Lease | None, offset: int) -> Lease | None:
        core, leases = self._core, self._leases
        is_known = held is not None and client_id in held.waiters
        rival = leases.rival
        if rival is not None and not rival.try_yield_to_pull(group, queue, client_id):
            return None
        lease = leases.grant(group, queue, client_id)
        if lease is None:
            if not is_known and held is not None:
                core.emit_queue(EventKind.LOCK_REFUSED, group, queue, client=client_id, detail=held.owner)
            return None
        entry = self._topics.existing(queue.topic)
        committed = leases.offsets.read(group, *queue)
        lease.start = offset if committed is None else committed
        lag = max(0, core.store.max_offset(entry.topic_id, queue.queue_id) - lease.start)
        note = {"client": client_id, "version": lease.token, "offset": lease.start, "n": lag}
        core.emit_queue(EventKind.LOCK_GRANTED, group, queue, **note)
        core.barrier.metadata_changed()
        return lease

    # --- giving up ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When the next contested lease counts as given up."""
        return min(
            (
                given_up_at(taken, self._unprocessed(key)) if taken.is_told else taken.contested_at
                for key, taken in self._taken.contested()
            ),
            default=None,
        )

    def expire(self, now: float) -> None:
        """Free the contested leases that are drained or given up."""
        for key, taken in self._taken.contested():
            if taken.is_contested(now + _SOON) and not taken.is_told:
                taken.is_told = True
                # Its parked pull is held for a shorter time from now on, and brings nothing new.
                self._core.features.queue_changed(*key[1])
            self._free_if_due(key, now)

    def _unprocessed(self, key: TakenKey) -> int:
        group, queue = key
        lease = self._leases.table.owner_of(group, queue)
        if lease is None:
            return 0
        if lease.served < 0:
            return 1  # an earlier run of the broker knew
        return lease.served - max(self._leases.offsets.read(group, *queue) or 0, lease.start)

    def _free_if_due(self, key: TakenKey, now: float) -> None:
        taken, (group, queue) = self._taken.get(key), key
        lease = self._leases.table.owner_of(group, queue)
        if taken is None or lease is None or not taken.is_contested(now + _SOON):
            return
        unprocessed = self._unprocessed(key)
        due_at = given_up_at(taken, unprocessed)
        if due_at > now + _SOON:
            self._core.driver.wake_by(due_at)
            return
        freed = self._leases.table.release(group, lease.owner, queue, lease.token)
        assert freed is not None, "the owner's own token releases"
        self._leases.queues_freed([freed], self._core.events.next_id(), "given up" if unprocessed > 0 else "unlock")
