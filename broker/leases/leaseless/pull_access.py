"""The access of pulls to queues: under a token, or under a lease that the broker takes for a member without one.

Pulls of every client ask this object alone. A member of this project has asked for its lease, so its pull costs one
look-up in the table of leases. For a member without leases `implicit_leases.py` in this folder has the rules; here its
leases are taken, contested and freed. A client without an id only views a queue, and may read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from broker.feature import Core, Feature
from broker.groups.group import Member
from broker.groups.members import Groups
from broker.groups.settings import StoredGroupSettings
from broker.leases.leaseless.implicit_leases import ImplicitLeases, LeaseKey, contested_lease_ends_at
from broker.leases.leaseless.pending_resets import PendingResets
from broker.leases.service import Leases
from broker.leases.table import Lease, QueueKey
from broker.store.read_result import ReadStatus
from model.errors import GroupNotExist, LeaseLost
from model.heartbeat import ConsumeType, MessageModel
from model.limits import IMPLICIT_LEASE_DRAIN_S, LEASELESS_WAIT_S
from model.quirks import Quirk

_SOON = 1e-6


class PostponedPull(NamedTuple):
    """A pull that may not read now: it runs again after at most `wait_s`; with 0 the other fields are its answer."""

    next_offset: int
    status: ReadStatus
    wait_s: float = 0.0


class PullAccess(Feature):
    """The access of pulls to the queues of one broker."""

    def __init__(self, core: Core, groups: Groups, leases: Leases, settings: StoredGroupSettings) -> None:
        self._core = core
        self._groups = groups.table
        self._leases = leases
        self._settings = settings
        self._switched_off = settings.switched_off
        self._overlapping = Quirk.OVERLAPPING_HANDOVER in core.quirks
        self.implicit = ImplicitLeases()
        self.resets = PendingResets()  # resets that members without leases have not followed yet

    def record_pull(self, connection: int, header: Mapping[str, Any], now: float) -> None:
        """Record a new pull as a sign of life of its member, and store its commit.

        Not called for a parked pull that runs again: a message that arrives for it does not show that its member lives,
        and its commit is old.
        """
        group, client_id, token = header["group"], header.get("client_id") or "", header.get("token")
        if token is None and self._member_without_leases(group, client_id, header["topic"]) is None:
            return
        if not self._groups.touch(group, client_id, connection, now):
            return
        commit = header.get("commit")
        if token is None:
            self._implicit_owner_pulled(group, QueueKey(header["topic"], header["queue_id"]), client_id, commit, now)
        elif commit is not None:
            queue = QueueKey(header["topic"], header["queue_id"])
            self._leases.commit_with_pull(group, queue, client_id, token, commit)

    def access(self, connection: int, header: Mapping[str, Any]) -> Lease | PostponedPull | None:
        """The lease under which a pull reads now; None for a client that needs no lease.

        Raises:
            GroupSwitchedOff: its group is switched off.
            LeaseLost: another member has the queue now, or no member has it.
            GroupNotExist: a member without leases has sent its heartbeat over another connection.
        """
        group, client_id, token = header["group"], header.get("client_id") or "", header.get("token")
        if client_id and self._switched_off and group in self._switched_off:
            self._settings.check_may_consume(group, client_id)
        queue = QueueKey(header["topic"], header["queue_id"])
        if token is None:
            member = self._member_without_leases(group, client_id, queue.topic)
            return None if member is None else self._implicit_access(member, connection, queue, header["offset"])
        lease = self._leases.table.check(group, queue, client_id, token)
        if lease is None:
            raise LeaseLost(
                f"{queue.topic}:{queue.queue_id} of group {group!r} is leased to another member, or to none"
            )
        return lease

    # --- members without leases --------------------------------------------------------------------------------------

    def _member_without_leases(self, group: str, client_id: str, topic: str) -> Member | None:
        """The member without leases that pulls from the topic; None if the client asks for leases or needs none.

        In a broadcasting group every member reads every queue.
        """
        member = self._groups.find(group, client_id)
        if member is None or not member.data.leaseless or topic not in member.subscriptions:
            return None
        return member if member.data.model is MessageModel.CLUSTERING else None

    def _implicit_owner_pulled(
        self, group: str, queue: QueueKey, client_id: str, commit: int | None, now: float
    ) -> None:
        group_queue, lease = (group, queue), self._leases.table.owner_of(group, queue)
        if lease is None or lease.owner != client_id or self.implicit.get(group_queue) is None:
            return
        self.implicit.record_pull(group_queue, now)
        if commit is not None:
            self._leases.commit_with_pull(group, queue, client_id, lease.token, commit)
            self._free_if_due(group_queue, now)

    def _implicit_access(
        self, member: Member, connection: int, queue: QueueKey, offset: int
    ) -> Lease | PostponedPull | None:
        group, client_id = member.data.group, member.client_id
        if member.connection != connection:
            raise GroupNotExist(f"{client_id!r} is not a member of group {group!r} here: send a heartbeat first")
        group_queue, leases, now = (group, queue), self._leases, self._core.loop.time()
        wait = PostponedPull(offset, ReadStatus.NO_NEW, LEASELESS_WAIT_S)
        if (reset := self.resets.pulled(group_queue, offset)) is not None:
            # A lite pull consumer is not notified of the reset: only this answer moves it.
            is_due = now + _SOON >= reset.at or member.data.consume_type is ConsumeType.ACTIVELY
            return PostponedPull(reset.offset, ReadStatus.OFFSET_TOO_BIG) if is_due else wait
        if self._overlapping:
            return None
        lease = leases.table.owner_of(group, queue)
        if lease is None or lease.owner != client_id:
            # A member that locks may have unlocked the queue while its pull was parked: that pull must not take the
            # queue back.
            is_repeated = lease is None or client_id in lease.waiters
            if member.locks:
                return wait
            lease = leases.request(group, queue, client_id, lambda: offset, is_repeated=is_repeated)
            if lease is None:
                return wait
            self.implicit.record_pull(group_queue, now)
        implicit = self.implicit.get(group_queue)
        if implicit is None:
            return lease  # the member has asked for it: a lock
        if implicit.is_contested(now):
            return PostponedPull(offset, ReadStatus.NO_NEW, IMPLICIT_LEASE_DRAIN_S)
        # Another member has processed the messages before the group's offset.
        begin = leases.offsets.read(group, *queue) or 0 if implicit.is_before_group_offset else 0
        implicit.is_before_group_offset = offset < begin
        return PostponedPull(begin, ReadStatus.NO_MATCH) if implicit.is_before_group_offset else lease

    def sent(self, group: str, queue: QueueKey, lease: Lease, n_bytes: int) -> None:
        """Count the bytes that a pull without a token brought, for the limits of flow control."""
        implicit = self.implicit.get((group, queue))
        if implicit is not None:
            processed = (self._leases.offsets.read(group, *queue) or 0) >= lease.served
            implicit.sent_bytes = n_bytes if processed else implicit.sent_bytes + n_bytes

    # --- events of leases and offsets --------------------------------------------------------------------------------

    def lease_granted(self, group: str, queue: tuple[str, int], client_id: str) -> None:
        """End the implicit lease: a member that asks for a lease also releases it, and the grant names its offset."""
        group_queue = (group, QueueKey(*queue))
        self.implicit.forget(group_queue)
        if not self._groups.is_leaseless(group, client_id):
            self.resets.followed(group_queue)

    def lease_refused(self, group: str, queue: tuple[str, int]) -> None:
        """Contest the lease that another member wants, if it is implicit."""
        group_queue, now = (group, QueueKey(*queue)), self._core.loop.time()
        lease = self._leases.table.owner_of(*group_queue)
        is_restored = lease is not None and lease.served < 0 and self.implicit.get(group_queue) is None
        if lease is not None and is_restored and self._groups.is_leaseless(group, lease.owner):
            self.implicit.record_pull(
                group_queue, now
            )  # the broker took it before its restart, and has no record of it
        self._core.driver.wake_by(self.implicit.contest(group_queue, now))

    def lease_freed(self, group: str, queue: tuple[str, int], waiters: Sequence[str]) -> None:
        """Let the pulls that wait for the queue take its lease."""
        self.implicit.forget((group, QueueKey(*queue)))
        if any(self._groups.is_leaseless(group, client_id) for client_id in waiters):
            self._core.features.queue_changed(*queue)

    def commit_refusal(self, group: str, queue: tuple[str, int], client_id: str, offset: int) -> str | None:
        """Refuse a commit that would undo a reset."""
        topic, queue_id = queue
        if not self.resets.would_undo_reset((group, QueueKey(*queue)), offset):
            return None
        if self._member_without_leases(group, client_id, topic) is None:
            return None
        return f"{topic}:{queue_id} of group {group!r} was reset: go on at the new offset"

    def commit_accepted(self, group: str, queue: tuple[str, int]) -> None:
        """Check a contested lease soon: this commit may have drained it."""
        now = self._core.loop.time()
        if self.implicit.record_commit((group, QueueKey(*queue)), now):
            self._core.driver.wake_by(now)

    def offsets_reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Record the reset until members without leases follow it."""
        info = self._groups.get(group)
        if info is not None and any(member.data.leaseless for member in info.members.values()):
            for queue_id, offset in offsets.items():
                self.resets.add((group, QueueKey(topic, queue_id)), offset, self._core.loop.time())

    def group_deleted(self, group: str, cause: str) -> None:
        """Forget the leases and resets of a group."""
        self._forget(lambda group_queue: group_queue[0] == group)

    def topic_deleted(self, topic: str, cause: str) -> None:
        """Forget every group's leases and resets of a topic."""
        self._forget(lambda group_queue: group_queue[1].topic == topic)

    def _forget(self, is_gone: Callable[[LeaseKey], bool]) -> None:
        self.resets.forget(is_gone)
        self.implicit.forget_all(is_gone)

    # --- ends of implicit leases -------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When the next contested lease counts as abandoned."""
        return min(
            (
                contested_lease_ends_at(lease, self._unprocessed(group_queue))
                if lease.is_announced
                else lease.contested_at
                for group_queue, lease in self.implicit.contested_leases()
            ),
            default=None,
        )

    def expire(self, now: float) -> None:
        """Free the contested leases that are drained or abandoned."""
        for group_queue, lease in self.implicit.contested_leases():
            if lease.is_contested(now + _SOON) and not lease.is_announced:
                lease.is_announced = True
                # Its parked pull must not wait on and bring new messages: it is held for a short time from now on, and
                # brings nothing.
                self._core.features.queue_changed(*group_queue[1])
            self._free_if_due(group_queue, now)

    def _unprocessed(self, group_queue: LeaseKey) -> int:
        group, queue = group_queue
        lease = self._leases.table.owner_of(group, queue)
        if lease is None:
            return 0
        if lease.served < 0:
            return 1  # the number was lost with a restart of the broker: not zero is safe
        return lease.served - max(self._leases.offsets.read(group, *queue) or 0, lease.start)

    def _free_if_due(self, group_queue: LeaseKey, now: float) -> None:
        implicit, (group, queue) = self.implicit.get(group_queue), group_queue
        lease = self._leases.table.owner_of(group, queue)
        if implicit is None or lease is None or not implicit.is_contested(now + _SOON):
            return
        unprocessed = self._unprocessed(group_queue)
        due_at = contested_lease_ends_at(implicit, unprocessed)
        if due_at > now + _SOON:
            self._core.driver.wake_by(due_at)
            return
        freed = self._leases.table.release(group, lease.owner, queue, lease.token)
        assert freed is not None, "the owner's own token releases"
        self._leases.queues_freed([freed], self._core.events.next_id(), "given up" if unprocessed > 0 else "unlock")
