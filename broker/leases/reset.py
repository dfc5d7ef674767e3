"""INVOKE_BROKER_TO_RESET_OFFSET: reset the offsets of a group while its members consume.

RocketMQ: AdminBrokerProcessor.resetOffset, which makes every member suspend for 10 s, or makes the broker ignore
commits until the next pull. Here the lease decides. In one event-loop iteration the broker sets the new offset
and revokes the lease of the queue, so every later commit of the owner under its token is refused and cannot undo the
reset. The owner is notified to drop its fetched messages. It requests the queue like any member, and is granted it from
the new offset on. Clients of RocketMQ have no leases and move to the new offset later; see
`broker/leases/leaseless/pending_resets.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.leases.table import FreedLease, QueueKey
from broker.topics.service import Topics
from broker.topics.table import TopicEntry, check_exists, queue_count
from model.errors import IllegalOperation, InvalidParameter, NoPermission
from model.events import EventKind
from model.heartbeat import MessageModel
from model.names import check_group
from model.offset_reset import ResetKind, ResetTo
from model.topic_route import Perm
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_QUEUES_PER_PUSH = 4_096
"""The queues that fit in one header."""


class _Row(NamedTuple):
    """One queue in the answer."""

    queue_id: int
    before: int
    after: int
    clamped: bool
    owner: str


class ResetHandlers(Feature):
    """Resets the offsets of groups."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, leases: Leases) -> None:
        self._core = core
        self._topics = topics.table
        self._groups = groups
        self._leases = leases

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset}

    def reset(self, connection: Connection, request: Command) -> None:
        """Reset queues of one topic, all or none; the answer follows once the new offsets are stored."""
        core, header = self._core, request.header
        group, topic = check_group(header["group"]), header["topic"]
        if header["to"] not in set(ResetKind):
            raise InvalidParameter(f"a reset is to {', '.join(ResetKind)}, not to {header['to']!r}")
        to = ResetTo(ResetKind(header["to"]), header.get("value") or 0)
        entry = self._topics.existing(topic)
        if not entry.config.perm & Perm.READ:
            raise NoPermission(f"topic {topic!r} is not readable on this broker, so no group has an offset on it")
        is_known = self._check_group(group)
        # All rows are checked before the first is applied: a refused row must not leave other queues reset.
        rows = [self._row(group, entry, queue_id, to) for queue_id in _queue_ids(entry, header.get("queue_ids"))]
        if not header.get("dry_run"):
            self._apply(group, topic, rows, to, core.events.cause_of(header.get("cause")))
        core.barrier.respond_after_commit(connection, request, {"known": is_known}, msgpack.packb(rows))

    def _check_group(self, group: str) -> bool:
        """Whether the group is known here; a broadcasting group is refused."""
        info = self._groups.table.get(group)
        members = info.members.values() if info is not None else ()
        if any(member.data.model is MessageModel.BROADCASTING for member in members):
            raise IllegalOperation(
                f"group {group!r} is broadcasting: each member keeps offsets of its own, which no broker can reset"
            )
        return info is not None or self._leases.has_group_data(group)

    def _row(self, group: str, entry: TopicEntry, queue_id: int, to: ResetTo) -> _Row:
        store, queue = self._core.store, QueueKey(entry.config.topic, queue_id)
        low, high = store.min_offset(entry.topic_id, queue_id), store.max_offset(entry.topic_id, queue_id)
        committed = self._leases.offsets.read(group, *queue)
        try:
            wanted_offset = to.offset_in(
                low, high, committed, lambda at_ms: store.offset_at(entry.topic_id, queue_id, at_ms)
            )
        except InvalidParameter as error:
            raise InvalidParameter(f"{queue.topic}:{queue_id}, group {group!r}: {error}") from error
        after = min(max(wanted_offset, low), high)
        lease = self._leases.table.owner_of(group, queue)
        owner = "" if lease is None else lease.owner
        return _Row(queue_id, -1 if committed is None else committed, after, after != wanted_offset, owner)

    def _apply(self, group: str, topic: str, rows: list[_Row], to: ResetTo, cause: str) -> None:
        core, leases = self._core, self._leases
        freed: list[FreedLease] = []
        stock = self._members_without_leases(group)
        for row in rows:
            queue = QueueKey(topic, row.queue_id)
            leases.commit(group, queue, row.after, reset=True)
            freed_lease = leases.table.revoke(group, queue)
            if freed_lease is not None:
                freed.append(freed_lease)
            cause = core.emit_queue(
                EventKind.OFFSET_RESET,
                group,
                queue,
                cause=cause,
                client=row.owner,
                version=leases.table.newest_token,
                offset=row.after,
                detail=to.kind.value,
            )
        core.features.offsets_reset(group, topic, {row.queue_id: row.after for row in rows})
        self._notify_owners([freed_lease for freed_lease in freed if freed_lease.owner not in stock], rows, cause)
        for client_id in stock:
            # Each may have fetched messages of any queue, also of queues that another member has now.
            self._notify(group, client_id, topic, {row.queue_id: row.after for row in rows}, 0, cause)
        # The owners are notified before their queues become free. A refused pull alone would not stop an owner that
        # flow control keeps from pulling: it would go on to process the messages that it has in memory.
        leases.queues_freed(freed, cause, "reset")
        for row in rows:
            core.features.queue_changed(topic, row.queue_id)

    def _members_without_leases(self, group: str) -> list[str]:
        info = self._groups.table.get(group)
        members = () if info is None else info.members.values()
        return [member.client_id for member in members if member.data.leaseless]

    def _notify_owners(self, freed: list[FreedLease], rows: list[_Row], cause: str) -> None:
        offsets = {row.queue_id: row.after for row in rows}
        by_owner: dict[str, list[FreedLease]] = {}
        for lease in freed:
            by_owner.setdefault(lease.owner, []).append(lease)
        for client_id, queues in by_owner.items():
            reset = {lease.queue.queue_id: offsets[lease.queue.queue_id] for lease in queues}
            token = max(lease.token for lease in queues)
            self._notify(queues[0].group, client_id, queues[0].queue.topic, reset, token, cause)

    def _notify(self, group: str, client_id: str, topic: str, reset: dict[int, int], token: int, cause: str) -> None:
        """Notify a member of queues that were reset: queue id -> offset."""
        connection, queue_ids = self._groups.connection_of(group, client_id), list(reset)
        if connection is None:
            return
        for start in range(0, len(queue_ids), _QUEUES_PER_PUSH):
            part = queue_ids[start : start + _QUEUES_PER_PUSH]
            header = {
                "group": group,
                "broker_name": self._core.name,
                "topic": topic,
                "queue_ids": part,
                "offsets": [reset[queue_id] for queue_id in part],
                "token": token,
                "cause": cause,
            }
            connection.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header)


def _queue_ids(entry: TopicEntry, chosen_ids: list[int] | None) -> list[int]:
    """The queues to reset, sorted: all, or the wanted ones, which must exist."""
    if chosen_ids is None:
        return list(range(queue_count(entry.config)))
    queue_ids = sorted(set(chosen_ids))
    if not queue_ids:
        raise InvalidParameter("INVOKE_BROKER_TO_RESET_OFFSET: field 'queue_ids' must name a queue")
    for queue_id in queue_ids:
        check_exists(entry.config, queue_id)
    return queue_ids
