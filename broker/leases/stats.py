"""Groups for operators: their members (GET_GROUP_LIST, GET_CONSUMER_CONNECTION_LIST) and their progress.

RocketMQ: AdminBrokerProcessor.
"""

from __future__ import annotations

import msgpack

from broker.feature import Core, Feature
from broker.groups.group import ConsumerGroupInfo
from broker.groups.members import Groups
from broker.groups.settings import StoredGroupSettings
from broker.leases.service import Leases
from broker.leases.start_offsets import policies_by_topic, policy_offset
from broker.leases.table import QueueKey
from broker.topics.service import Topics
from broker.topics.table import queue_count
from model.errors import GroupNotExist, IllegalOperation
from model.limits import MAX_LEASE_ROWS
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_Row = list[object]


class GroupStatsHandlers(Feature):
    """Answers `rlab group list` and `rlab group show`."""

    def __init__(
        self, core: Core, topics: Topics, groups: Groups, leases: Leases, settings: StoredGroupSettings
    ) -> None:
        self._core = core
        self._topics = topics.table
        self._groups = groups
        self._leases = leases
        self._settings = settings

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.GET_GROUP_LIST: self.group_list,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_consume_stats,
        }

    def group_list(self, connection: Connection, request: Command) -> Reply:
        """Groups with members, offsets or settings; with a topic, only groups that read it now or did before."""
        groups, topic = self._groups.table, request.header.get("topic")
        rows = []
        for name in self._names():
            info = groups.get(name)
            if topic is not None and not self._reads(name, info, topic):
                continue
            rows.append([name, 0 if info is None else len(info.members), 0 if info is None else info.version])
        return Reply({}, msgpack.packb(rows))

    def _names(self) -> list[str]:
        live_groups = [info.group for info in self._groups.table.groups()]
        return sorted(dict.fromkeys(live_groups + self._leases.offsets.groups() + self._settings.groups()))

    def _reads(self, group: str, info: ConsumerGroupInfo | None, topic: str) -> bool:
        members = () if info is None else info.members.values()
        committed = self._leases.offsets.of_group(group)
        return any(topic in member.subscriptions for member in members) or any(
            committed_topic == topic for committed_topic, *_ in committed
        )

    def consumer_connections(self, connection: Connection, request: Command) -> Reply:
        """Members of a group, with their address, settings, subscriptions and queues."""
        group = request.header["group"]
        info = self._groups.table.get(group)
        if info is None:
            raise GroupNotExist(f"group {group!r} is not known to broker {self._core.name!r}")
        now, clients = self._core.loop.time(), self._groups.clients
        members = [
            {
                "client_id": member.client_id,
                "address": None if (client := clients.get(member.connection)) is None else client.connection.peer,
                "expires_in_s": member.leaves_at - now,
                "consumer": member.data.to_wire(),
                "sql": [each.topic for each in member.data.subscriptions if each.is_sql],
                "suspended": member.data.suspended,
                "leaseless": member.data.leaseless,
                "queues": [list(queue) for queue in self._leases.table.held_by(group, member.client_id)],
            }
            for _, member in sorted(info.members.items())
        ]
        answer = {"group": group, "version": info.version, "created_ms": info.created_ms, "members": members}
        return Reply({}, msgpack.packb(answer))

    def consume_stats(self, connection: Connection, request: Command) -> Reply:
        """Progress of a group on every queue of its topics."""
        header = request.header
        group = header["group"]
        if self._groups.table.get(group) is None and not self._leases.offsets.of_group(group):
            raise GroupNotExist(f"group {group!r} is not known to broker {self._core.name!r}")
        rows, extra = self._progress(group, header.get("topic"), with_times=bool(header.get("times")))
        return Reply(extra, msgpack.packb(rows))

    def all_consume_stats(self, connection: Connection, request: Command) -> Reply:
        """Progress of every group."""
        stats: list[_Row] = []
        n_rows = 0
        for group in self._names():
            rows, extra = self._progress(group, None, with_times=bool(request.header.get("times")))
            n_rows += len(rows)
            if n_rows > MAX_LEASE_ROWS:
                raise IllegalOperation(f"the groups here read more than {MAX_LEASE_ROWS} queues: ask for one group")
            stats.append([group, rows, extra])
        return Reply({}, msgpack.packb(stats))

    def _progress(self, group: str, only: str | None, *, with_times: bool) -> tuple[list[_Row], dict[str, list[_Row]]]:
        """A row for each queue that a group reads, and further facts about some of these queues, by name."""
        store, info = self._core.store, self._groups.table.get(group)
        committed = {(topic, queue_id): offset for topic, queue_id, offset in self._leases.offsets.of_group(group)}
        policies = {} if info is None else policies_by_topic(info.members.values())
        created_ms = 0 if info is None else info.created_ms
        topics = {topic for topic, _ in committed} | policies.keys()
        rows: list[_Row] = []
        damaged: list[_Row] = []
        starts: list[_Row] = []
        sent: list[_Row] = []
        times: list[_Row] = []
        for topic in sorted(topics if only is None else topics & {only}):
            entry = self._topics.get(topic)
            if entry is None:
                continue
            for queue_id in range(queue_count(entry.config)):
                lease = self._leases.table.owner_of(group, QueueKey(topic, queue_id))
                if lease is not None and lease.served >= 0:
                    sent.append([topic, queue_id, lease.served - max(committed.get((topic, queue_id), 0), lease.start)])
                if n_damaged := store.damage.total((entry.topic_id, queue_id)):
                    damaged.append([topic, queue_id, n_damaged])
                if with_times and (next_offset := committed.get((topic, queue_id), 0)) > 0:
                    last = store.read_one(entry.topic_id, queue_id, next_offset - 1)
                    times.append([topic, queue_id, 0 if last is None else last.stored_ms])
                if (topic, queue_id) not in committed and topic in policies:
                    # Members of one group may have different policies, although they should not: the lowest offset
                    # counts.
                    offsets = (policy_offset(store, entry, queue_id, policy, created_ms) for policy in policies[topic])
                    starts.append([topic, queue_id, min(offsets)])
                rows.append(
                    [
                        topic,
                        queue_id,
                        store.min_offset(entry.topic_id, queue_id),
                        store.max_offset(entry.topic_id, queue_id),
                        committed.get((topic, queue_id), -1),
                        "" if lease is None else lease.owner,
                        -1,  # earlier versions sent the token here; only the owner needs it
                    ]
                )
        # In the header: a client of an older version reads rows of exactly these columns.
        extra = {"damaged": damaged, "starts": starts, "sent": sent, "times": times}
        return rows, {name: values for name, values in extra.items() if values}
