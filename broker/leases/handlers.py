"""Leases and committed offsets: LOCK_BATCH_MQ, UNLOCK_BATCH_MQ, QUERY and UPDATE_CONSUMER_OFFSET.

A member asks for the lease of a queue before it consumes the queue, and the grant has the offset to start from. It
releases the lease together with its last commit. Each commit is checked against the lease.

RocketMQ: AdminBrokerProcessor (locks), ConsumerManageProcessor (offsets).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgpack

from broker.feature import Core, Feature
from broker.groups.group import Member
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.leases.start_offsets import policy_offset
from broker.leases.table import FreedLease, QueueKey
from broker.topics.service import Topics
from broker.topics.table import check_exists
from model.errors import InvalidParameter, LeaseLost, OffsetRegression, QueryNotFound, SystemBusy
from model.heartbeat import ConsumeFrom
from model.names import check_group, check_id
from model.quirks import Quirk
from model.topic_incarnation import TopicIncarnation
from remoting.body import rows_of
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class LeaseHandlers(Feature):
    """Serves members: it grants queues to them and stores their commits."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, leases: Leases) -> None:
        self._core = core
        self._topics = topics.table
        self._groups = groups.table
        self._leases = leases

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
            RequestCode.QUERY_CONSUMER_OFFSET: self.query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update_offsets,
        }

    # --- leases ------------------------------------------------------------------------------------------------------

    def lock(self, connection: Connection, request: Command) -> None:
        """Grant the queues that are free; add the caller to the waiters of the others.

        The answer follows once the leases are stored. `broker/leases/leaseless/locks.py` calls this, at once or after
        the request has waited for its queue.

        RocketMQ: lockBatchMQ.
        """
        core, leases, header = self._core, self._leases, request.header
        group, client_id, cause = header["group"], header["client_id"], header.get("cause") or ""
        member = self._groups.member(group, client_id, connection.number)
        granted: list[tuple[str, int, int, int]] = []
        refused: list[tuple[str, int, str]] = []
        for topic, queue_id in rows_of(request):
            queue, lease = QueueKey(topic, queue_id), None
            if self._topics.is_readable(topic, queue_id):  # else its route is older than the topic
                lease = leases.request(group, queue, client_id, partial(self.start_offset, member, queue), cause)
            if lease is not None:
                granted.append((topic, queue_id, lease.token, lease.start))
            else:
                # The caller still gets the other queues, although it is refused this one.
                queue_lease = leases.table.owner_of(group, queue)
                refused.append((topic, queue_id, "" if queue_lease is None else queue_lease.owner))
        core.barrier.respond_after_commit(connection, request, {}, msgpack.packb([granted, refused]))

    def start_offset(self, member: Member, queue: QueueKey) -> int:
        """The offset at which a member starts on a queue: the group's commit, or the offset by the group's policy."""
        data = member.data
        committed = self._leases.offsets.read(data.group, *queue)
        if committed is not None:
            return committed
        info = self._groups.get(data.group)
        assert info is not None, "a member's group exists"
        return policy_offset(
            self._core.store, self._topics.existing(queue.topic), queue.queue_id, data, info.created_ms
        )

    def unlock(self, connection: Connection, request: Command) -> None:
        """Commit and release, in one step, so that the next owner starts where this one stopped.

        RocketMQ: unlockBatchMQ.
        """
        leases, header = self._leases, request.header
        group, client_id = header["group"], header["client_id"]
        cause = self._core.events.cause_of(header.get("cause"))
        rows = rows_of(request)
        commits = [row for row in rows if row[2] >= 0]
        self._check_sender(connection, header)
        failures = self._commit(group, client_id, commits, reset=False, cause=cause)
        freed: list[FreedLease] = []
        for topic, queue_id, _, token in rows:
            queue = QueueKey(topic, queue_id)
            # A late release must not free a newer lease of the same member, so its token has to match. A member
            # without leases has no token, and releases the lease that it holds now.
            lease = leases.table.owner_of(group, queue)
            has_none = token < 0 and lease is not None and self._groups.is_leaseless(group, client_id)
            freed_lease = leases.table.release(group, client_id, queue, lease.token if has_none and lease else token)
            if freed_lease is not None:
                freed.append(freed_lease)
        leases.queues_freed(freed, cause, "unlock")
        self._core.barrier.respond_after_commit(connection, request, {}, msgpack.packb(failures))

    # --- offsets -----------------------------------------------------------------------------------------------------

    def query_offset(self, connection: Connection, request: Command) -> Reply:
        """The committed offset of one queue."""
        header = request.header
        offset = self._leases.offsets.read(header["group"], header["topic"], header["queue_id"])
        if offset is None:
            offset = self._start_of(header)
        if offset is None:
            raise QueryNotFound(
                f"group {header['group']!r} has no offset on {header['topic']}:{header['queue_id']} yet"
            )
        return Reply({"offset": offset})

    def _start_of(self, header: dict[str, Any]) -> int | None:
        """The offset at which a member without leases starts on a queue without a commit; a grant has it for others.

        None if the caller is not a member, or starts at a time, because its heartbeat does not contain that time.
        """
        member = self._groups.find(header["group"], header.get("client_id") or "")
        queue = QueueKey(header["topic"], header["queue_id"])
        if member is None or member.data.consume_from is ConsumeFrom.TIMESTAMP or not self._topics.is_readable(*queue):
            return None
        return self.start_offset(member, queue)

    def update_offsets(self, connection: Connection, request: Command) -> None:
        """Commit offsets; the answer follows once they are stored."""
        header = request.header
        self._check_sender(connection, header)
        failures = self._commit(
            header["group"],
            header["client_id"],
            self._rows_of_present_topics(request),
            reset=bool(header.get("reset")),
            cause=header.get("cause") or "",
            soon=bool(header.get("soon")),
        )
        self._core.barrier.respond_after_commit(connection, request, {}, msgpack.packb(failures))

    def _rows_of_present_topics(self, request: Command) -> Iterable[tuple[str, int, int, int]]:
        """Drop the rows whose topic was deleted and created again: such a commit is late, not wrong."""
        header, rows = request.header, rows_of(request)
        topic_ids = header.get("topic_ids")
        if topic_ids is None:
            return rows
        if len(topic_ids) != len(rows):
            raise InvalidParameter(f"topic_ids must be as many as the rows, {len(rows)}, got {len(topic_ids)}")
        return [
            row for row, topic_id in zip(rows, topic_ids, strict=True) if self._is_present(row[0], topic_id, header)
        ]

    def _is_present(self, topic: str, topic_id: int, header: dict[str, Any]) -> bool:
        entry = self._topics.get(topic)
        if entry is None or not topic_id:
            return True
        return not TopicIncarnation(topic_id, header.get("data_id") or 0).surely_differs(
            self._topics.incarnation_of(entry)
        )

    def _check_sender(self, connection: Connection, header: dict[str, Any]) -> None:
        """Refuse a caller that acts as another live member: a token proves nothing, because events show tokens.

        Raises:
            ClientIdConflict: see `GroupTable.check_sender`.
        """
        self._groups.check_sender(header["group"], header["client_id"], connection.number, header.get("epoch") or "")

    def _commit(
        self,
        group: str,
        client_id: str,
        rows: Iterable[tuple[str, int, int, int]],
        *,
        reset: bool,
        cause: str,
        soon: bool = False,
    ) -> list[tuple[str, int, int, str]]:
        """Apply commits one by one; returns [topic, queue id, code, remark] of each refused commit."""
        check_group(group)
        check_id("client id", client_id)
        failures: list[tuple[str, int, int, str]] = []
        for topic, queue_id, offset, token in rows:
            if self._topics.get(topic) is None:
                continue  # a commit for a deleted topic is late, not wrong
            try:
                queue = QueueKey(topic, queue_id)
                self._check_commit(group, client_id, queue, offset, token, reset=reset)
                self._core.features.commit_accepted(group, queue)
                if soon and not reset:
                    self._leases.commit_soon(group, queue, client_id, offset)
                elif self._leases.commit(group, queue, offset, reset=reset):
                    self._leases.report_commit(group, queue, client_id, offset, cause, "seek" if reset else "")
            except (LeaseLost, OffsetRegression, InvalidParameter, SystemBusy) as error:
                failures.append((topic, queue_id, int(error.code or 0), str(error)))
        return failures

    def _check_commit(
        self, group: str, client_id: str, queue: QueueKey, offset: int, token: int, *, reset: bool
    ) -> None:
        """Check that this member may commit this offset of a queue.

        Raises:
            LeaseLost: the lease or a feature forbids it.
            InvalidParameter: the queue has no such offset.
        """
        leases = self._leases
        entry = self._topics.existing(queue.topic)
        end = self._core.store.max_offset(entry.topic_id, queue.queue_id)
        if end == 0:
            # A commit is accepted for a queue that has messages, even if the topic has fewer queues now, but not for a
            # queue that never existed.
            check_exists(entry.config, queue.queue_id)
        if not 0 <= offset <= end:
            raise InvalidParameter(
                f"{queue.topic}:{queue.queue_id} has offsets 0 to {end}; {offset} cannot be committed"
            )
        # A member that seeks to an earlier offset is fenced like any other; `broker/leases/reset.py` is for operators.
        fenced = Quirk.OFFSETS_GO_BACK not in self._core.quirks
        if fenced and token >= 0 and not leases.table.check(group, queue, client_id, token):
            raise LeaseLost(f"{queue.topic}:{queue.queue_id} of group {group!r} is leased to another member now")
        owner = leases.table.owner_of(group, queue) if fenced and token < 0 else None
        if owner is not None and not (owner.owner == client_id and self._groups.is_leaseless(group, client_id)):
            raise LeaseLost(f"{queue.topic}:{queue.queue_id} of group {group!r} is leased: commit with its token")
        if not reset and (refusal := self._core.features.commit_refusal(group, queue, client_id, offset)) is not None:
            raise LeaseLost(refusal)
