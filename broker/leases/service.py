"""The leases and committed offsets of a running broker: stores them, and notifies members of queues that are free.

`table.py`, `offsets.py` and `unstored_commits.py` decide, and are pure. Here their decisions are stored and recorded as
events. When a lease ends, the members that were refused it are notified, and the parked requests for its queue run
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from broker.durability.metadata import StoredNumber, Table
from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.leases.offset_out_of_range import OffsetOutOfRangeReporter
from broker.leases.offsets import OffsetTable
from broker.leases.table import FreedLease, Lease, QueueKey, QueueLeases
from broker.leases.unstored_commits import UnstoredCommits
from broker.topics.service import Topics
from model.assignment import BROKER_STRATEGY
from model.errors import RlabError, SystemBusy
from model.events import EventKind
from model.heartbeat import ConsumeType
from model.quirks import Quirk

logger = logging.getLogger(__name__)

LOCK_MAX_LIVE_S = 60.0
"""How long a dead member's leases live on under `Quirk.LOCKS_SURVIVE_CLOSE`. RocketMQ: lockMaxLiveTime."""

_SCHEMA = """
create table if not exists leases (
    group_name text not null, topic text not null, queue_id integer not null, owner text not null,
    token integer not null, primary key (group_name, topic, queue_id)
) without rowid;
create table if not exists offsets (
    group_name text not null, topic text not null, queue_id integer not null, queue_offset integer not null,
    primary key (group_name, topic, queue_id)
) without rowid;
"""


class Leases(Feature):
    """The leases and committed offsets of one broker; `tokens_ahead` as `versions_ahead` of `Groups`."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, *, tokens_ahead: int = 0) -> None:
        # Tokens have to grow over restarts, also without stored leases and with a clock that is behind, so the last
        # token is stored. Files of earlier versions do not have it: for them, tokens start at the clock in milliseconds
        # times 1000, which is right up to a thousand grants a millisecond.
        self._last_token = StoredNumber(core.metadata, "last_token", replicated=True)
        first_token = max(int(core.clock_ms()) * 1000, self._last_token.read() + tokens_ahead)
        self.table = QueueLeases(first_token=first_token, quirks=core.quirks)  # public for look-ups only
        # The committed offsets; changed through `commit` and `commit_soon`, so that they are stored.
        self.offsets = OffsetTable(quirks=core.quirks)
        self.moves = OffsetOutOfRangeReporter(core.name, core.events)  # reports consumers whose offset is out of range
        if tokens_ahead:
            self._last_token.save(first_token)
        self._core = core
        self._topics = topics
        self._groups = groups
        self._grace_s = LOCK_MAX_LIVE_S if Quirk.LOCKS_SURVIVE_CLOSE in core.quirks else 0.0
        core.metadata.add_tables(_SCHEMA)
        self._leases = Table(core.metadata, "leases", replicated=True)
        self._offsets = Table(core.metadata, "offsets", replicated=True)
        self._unstored = UnstoredCommits()
        self._load()

    def _load(self) -> None:
        for group, topic, queue_id, owner, token in self._leases.rows("token"):
            self.table.restore(group, QueueKey(topic, queue_id), owner, token)
        for row in self._offsets.rows():
            self.offsets.restore(*row)
        self._raise_ends()
        for group, client_id in self.table.owners():
            if self._groups.table.find(group, client_id) is None:
                # The owner left before the restart and its grace period was not stored: only this call frees its
                # leases.
                self.member_left(group, client_id, self._core.events.next_id(), "restart")

    def _raise_ends(self) -> None:
        """Raise the end of each queue that ends before a committed offset to that offset, and log a warning.

        The log and the metadata are two files, and one may have lost its end without the other. If group g committed
        12 on t:0 and the queue ends at 9, three messages are lost that g has consumed. The next three messages must not
        get the lost offsets, or g would skip them.
        """
        for group in self.offsets.groups():
            for topic, queue_id, offset in self.offsets.of_group(group):
                entry = self._topics.table.get(topic)
                if entry is None:
                    continue
                end_offset = self._core.store.max_offset(entry.topic_id, queue_id)
                if offset > end_offset:
                    logger.warning(
                        "group %s had committed %d on %s:%d, which ends at %d: %d messages were lost with the end of "
                        "the log, and the queue goes on at %d",
                        *(group, offset, topic, queue_id, end_offset, offset - end_offset, offset),
                    )
                    self._core.store.go_on_at(entry.topic_id, queue_id, offset)

    def commit(self, group: str, queue: QueueKey, offset: int, *, reset: bool = False) -> bool:
        """Commit an offset and store it; returns whether it is newer than the stored one. See `OffsetTable.commit`."""
        is_new = self.offsets.commit(group, *queue, offset, reset=reset)
        if self._unstored.pop((group, *queue)) is not None or is_new:
            self.save_offset(group, *queue, offset)
            return True
        return False

    def commit_soon(self, group: str, queue: QueueKey, client_id: str, offset: int) -> None:
        """Commit an offset; it is stored, and recorded as an event, with other commits. See `OffsetTable.commit`."""
        if self.offsets.commit(group, *queue, offset):
            self._core.driver.wake_by(self._unstored.add((group, *queue), client_id, self._core.loop.time()))

    def commit_with_pull(self, group: str, queue: QueueKey, client_id: str, token: int, offset: int) -> None:
        """Commit the offset that a pull carries, if the member may; the pull is answered in any case.

        A refused commit is ignored here: its member sends it again in a request of its own, and gets the reason.
        """
        committed = self.offsets.read(group, *queue)
        if committed is not None and offset <= committed:
            return  # the most frequent case: nothing was processed since the last pull
        lease, entry = self.table.check(group, queue, client_id, token), self._topics.table.get(queue.topic)
        if lease is None or not lease.held or entry is None:
            return
        if offset <= self._core.store.max_offset(entry.topic_id, queue.queue_id):
            with suppress(SystemBusy):
                self.commit_soon(group, queue, client_id, offset)

    def _store_now(self, group: str, queue: QueueKey) -> None:
        """Store and record a pending commit of a queue, so that its event precedes the next event of the queue."""
        if (committed_by := self._unstored.pop((group, *queue))) is not None:
            self._store(group, *queue, committed_by)

    def _store(self, group: str, topic: str, queue_id: int, client_id: str) -> None:
        """Store a pending commit, and record it as an event."""
        offset = self.offsets.read(group, topic, queue_id)
        assert offset is not None, "a deleted offset is forgotten everywhere"
        self.save_offset(group, topic, queue_id, offset)
        self.report_commit(group, QueueKey(topic, queue_id), client_id, offset)

    def report_commit(
        self, group: str, queue: QueueKey, client_id: str, offset: int, cause: str = "", detail: str = ""
    ) -> None:
        """Record a commit as an event, with the lag that it leaves."""
        topic_id = self._topics.table.existing(queue.topic).topic_id
        lag = self._core.store.max_offset(topic_id, queue.queue_id) - offset
        note = {"client": client_id, "offset": offset, "n": lag, "detail": detail}

        def record() -> None:
            self._core.emit_queue(EventKind.OFFSET_COMMITTED, group, queue, cause=cause, **note)

        self._record_once_kept(record)

    def _record_once_kept(self, record: Callable[[], None]) -> None:
        """Record an event now; of a set when every replica in sync has its change: before, the change may be lost."""

        def committed(failure: RlabError | None) -> None:
            if failure is None:
                record()

        if self._core.barrier.replication is None:
            record()
        else:
            self._core.barrier.after_commit(committed)

    def save_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store a committed offset; for POP, which keeps its commits elsewhere while it consumes a queue."""
        self._offsets.put(group, topic, queue_id, offset)

    def request(
        self,
        group: str,
        queue: QueueKey,
        client_id: str,
        first_offset: Callable[[], int],
        cause: str = "",
        *,
        is_repeated: bool = False,
    ) -> Lease | None:
        """Grant a queue to a member, to start at the committed offset; None if the member is refused and has to wait.

        `first_offset` returns the start offset if the group has committed nothing. The refusal of a repeated request
        is not recorded as an event.
        """
        core, lease = self._core, None
        if not core.features.withholds_lease(group, queue, client_id):
            lease = self.grant(group, queue, client_id)
        if lease is None:
            if not is_repeated:
                holder = self.table.owner_of(group, queue)
                owner = "POP" if holder is None else holder.owner  # its invisible messages keep the queue from members
                core.emit_queue(EventKind.LOCK_REFUSED, group, queue, cause=cause, client=client_id, detail=owner)
            return None
        committed = self.offsets.read(group, *queue)
        lease.start = first_offset() if committed is None else committed
        topic_id = self._topics.table.existing(queue.topic).topic_id
        lag = max(0, core.store.max_offset(topic_id, queue.queue_id) - lease.start)
        note = {"client": client_id, "version": lease.token, "offset": lease.start, "n": lag}

        def record() -> None:
            # The end of a lease is recorded at once. A grant behind its own end would look as if it went on for ever.
            if self.table.owner_of(group, queue) is lease:
                core.emit_queue(EventKind.LOCK_GRANTED, group, queue, cause=cause, **note)

        self._record_once_kept(record)
        core.barrier.metadata_changed()
        return lease

    def grant(self, group: str, queue: QueueKey, client_id: str) -> Lease | None:
        """Grant a queue and store the lease; None if another member has it. See `QueueLeases.acquire`."""
        lease = self.table.acquire(group, client_id, queue)
        if lease is not None:
            # A former owner may commit until the queue is granted again: its last commit comes first.
            self._store_now(group, queue)
            self._leases.put(group, *queue, client_id, lease.token)
            self._last_token.save(self.table.newest_token)
            # The parked pull of a former owner is refused now, so that this owner stops. At the pull's own deadline it
            # would be refused as well, but its listeners would go on with the queue until then.
            self._core.features.queue_changed(*queue)
            self._core.features.lease_granted(group, queue, client_id)
        else:
            self._core.features.lease_refused(group, queue)
        return lease

    def queues_freed(self, freed: list[FreedLease], cause: str, detail: str) -> None:
        """Record queues that became free, and notify the members that were refused them."""
        core = self._core
        waiting: dict[tuple[str, str], int] = {}
        for lease in freed:
            group, queue = lease.group, lease.queue
            self._leases.delete(group, *queue)
            self._store_now(group, queue)
            core.barrier.metadata_changed()
            kind, uncommitted = EventKind.QUEUE_RELEASED, {}
            if detail != "unlock":
                kind, uncommitted = EventKind.LOCK_EXPIRED, self._left_by(lease, detail)
            core.emit_queue(
                kind, group, queue, cause=cause, client=lease.owner, version=lease.token, detail=detail, **uncommitted
            )
            for client_id in lease.waiters:
                waiting[(group, client_id)] = waiting.get((group, client_id), 0) + 1
        self._groups.notify_released(waiting, cause)
        for lease in freed:
            core.features.lease_freed(lease.group, lease.queue, lease.waiters)

    def _left_by(self, lease: FreedLease, detail: str) -> dict[str, int]:
        """Where the next owner starts after a lease that ended without a release, and how many messages may come twice.

        The owner was sent these messages and has not committed them; the broker cannot know which of them it has
        processed. After an operator's reset the count is 0: the redelivery is intended.
        """
        entry = self._topics.table.get(lease.queue.topic)
        if entry is None:
            return {}  # the topic was deleted while the broker was down: no message of it is redelivered
        key = (entry.topic_id, lease.queue.queue_id)
        first = self.offsets.read(lease.group, *lease.queue)
        if first is None:
            first = max(lease.start, self._core.store.min_offset(*key))
        end = self._core.store.max_offset(*key)
        # An owner that has not pulled since the broker's restart may have been sent all messages.
        served = end if lease.served < 0 else min(lease.served, end)
        return {"offset": first, "n": 0 if detail == "reset" else max(0, served - first)}

    def is_wanted_by(self, group: str, client_id: str, topic: str) -> bool:
        """Whether a member that was refused a queue still needs its lease: its group may have switched to POP."""
        member = self._groups.table.find(group, client_id)
        if member is None or member.data.consume_type is ConsumeType.POP or topic not in member.subscriptions:
            return False
        return member.data.strategy != BROKER_STRATEGY or not self._core.features.is_popped(group, topic)

    # --- events of other features ------------------------------------------------------------------------------------

    def member_left(self, group: str, client_id: str, cause: str, reason: str) -> None:
        """Free the queues of the member, at once or after the grace period of a quirk."""
        now = self._core.loop.time()
        self.table.wait_no_longer(group, client_id)
        freed = self.table.owner_left(group, client_id, now=now, grace_s=self._grace_s)
        self.queues_freed(freed, cause, reason)
        self._core.driver.wake_by(now + self._grace_s)

    def process_replaced(self, group: str, client_id: str, cause: str) -> None:
        """Free the leases of the old process: the new one gets its own, and late commits of the old one are refused."""
        freed = self.table.owner_left(group, client_id, now=self._core.loop.time(), grace_s=0.0)
        self.queues_freed(freed, cause, "replaced")

    def has_group_data(self, group: str) -> bool:
        """Whether the group has committed offsets."""
        return bool(self.offsets.of_group(group))

    def group_deleted(self, group: str, cause: str) -> None:
        """Forget the leases and offsets of a group."""
        self.offsets.delete_group(group)
        self._unstored.forget(lambda group_queue: group_queue[0] == group)
        self.table.forget_group(group)
        for rows in (self._leases, self._offsets):
            rows.delete_where("group_name", group)

    def topic_deleted(self, topic: str, cause: str) -> None:
        """Forget every group's leases and offsets of a topic."""
        self.offsets.delete_topic(topic)
        self._unstored.forget(lambda group_queue: group_queue[1] == topic)
        self.table.forget_topic(topic)
        for rows in (self._leases, self._offsets):
            rows.delete_where("topic", topic)

    def next_deadline(self) -> float | None:
        """When the next grace period of leases without a member ends, or commits have to be stored."""
        deadlines = (self.table.next_deadline(), self._unstored.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def expire(self, now: float) -> None:
        """Free the leases whose grace period has ended, and store the commits that are due."""
        self.queues_freed(self.table.expire(now), self._core.events.next_id(), "expiry")
        self._store_all(now)

    def close(self) -> None:
        """Store every commit, because the broker stops."""
        self._store_all(float("inf"))

    def _store_all(self, now: float) -> None:
        due = self._unstored.remove_due(now)
        for group_queue, client_id in due.items():
            self._store(*group_queue, client_id)
        if due:
            self._core.barrier.metadata_changed()
