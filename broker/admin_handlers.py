"""Administration: topics, and what an operator wants to see. RocketMQ: AdminBrokerProcessor."""

from __future__ import annotations

from typing import Any

import msgpack

from broker.broker import Broker
from broker.leases.table import QueueKey
from broker.topics.table import queue_count
from model.errors import GroupNotExist
from model.topic_route import Perm, TopicConfig, checked_topic_config
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class AdminHandlers:
    """Answers `rlab topic`, `rlab group` and the console."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_topic,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_GROUP_LIST: self.group_list,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_SERVER_STATE: self.server_state,
        }

    def put_topic(self, connection: Connection, request: Command) -> None:
        """Create or change a topic; answered once it is stored."""
        header = request.header
        config = checked_topic_config(
            header["topic"], header["read_queue_nums"], header["write_queue_nums"], Perm(header["perm"])
        )
        entry, changed = self._broker.topics.put(config)
        if changed:
            self._broker.topic_changed(entry, header.get("cause") or "")
        self._answer_after_commit(connection, request)

    def delete_topic(self, connection: Connection, request: Command) -> None:
        """Delete a topic with its messages, offsets and leases."""
        self._broker.delete_topic(request.header["topic"], request.header.get("cause") or "")
        self._answer_after_commit(connection, request)

    def runtime_info(self, connection: Connection, request: Command) -> Reply:
        """Counters of this broker."""
        broker = self._broker
        topics = [[*config.to_wire(), self._ranges(config)] for config in broker.topics.configs()]
        info: dict[str, Any] = {
            "name": broker.config.name,
            "cluster": broker.config.cluster,
            "uptime_s": broker.uptime_s,
            "topics": topics,
            "groups": len(broker.groups.groups()),
            **broker.features.stats(),
            "held_pops": broker.pops.held_count,
            "pop_messages": broker.pops.ledger.messages,
            "producers": sum(len(client.producer_groups) for client in broker.clients.values()),
            "events_dropped": broker.events.dropped,
            "quirks": sorted(quirk.value for quirk in broker.config.quirks),
        }
        return Reply({}, msgpack.packb(info))

    def _ranges(self, config: TopicConfig) -> list[list[int]]:
        """[min offset, max offset] of every queue of a topic."""
        store, topic_id = self._broker.store, self._broker.topics.existing(config.topic).topic_id
        queues = range(queue_count(config))
        return [[store.min_offset(topic_id, queue_id), store.max_offset(topic_id, queue_id)] for queue_id in queues]

    def group_list(self, connection: Connection, request: Command) -> Reply:
        """Groups with members or offsets."""
        broker = self._broker
        names = dict.fromkeys([info.group for info in broker.groups.groups()] + broker.offsets.groups())
        rows = []
        for name in sorted(names):
            info = broker.groups.get(name)
            rows.append([name, 0 if info is None else len(info.members), 0 if info is None else info.version])
        return Reply({}, msgpack.packb(rows))

    def consumer_connections(self, connection: Connection, request: Command) -> Reply:
        """Members of a group, in full."""
        broker, group = self._broker, request.header["group"]
        info = broker.groups.get(group)
        if info is None:
            raise GroupNotExist(f"group {group!r} is not known to broker {broker.config.name!r}")
        now = broker.loop.time()
        members = []
        for key in sorted(info.members):
            member = info.members[key]
            client = broker.clients.get(member.connection)
            members.append(
                {
                    "client_id": member.client_id,
                    "address": None if client is None else client.connection.peer,
                    "expires_in_s": member.expires_at - now,
                    "consumer": member.data.to_wire(),
                    "queues": [list(queue) for queue in broker.locks.held_by(group, member.client_id)],
                }
            )
        answer = {"group": group, "version": info.version, "created_ms": info.created_ms, "members": members}
        return Reply({}, msgpack.packb(answer))

    def consume_stats(self, connection: Connection, request: Command) -> Reply:
        """Progress of a group on every queue of its topics."""
        broker, group, only = self._broker, request.header["group"], request.header.get("topic")
        info = broker.groups.get(group)
        committed = {(topic, queue_id): offset for topic, queue_id, offset in broker.offsets.of_group(group)}
        if info is None and not committed:
            raise GroupNotExist(f"group {group!r} is not known to broker {broker.config.name!r}")
        topics = {topic for topic, _ in committed}
        if info is not None:
            topics.update(topic for member in info.members.values() for topic in member.subscriptions)
        rows = []
        for topic in sorted(topics if only is None else topics & {only}):
            entry = broker.topics.get(topic)
            if entry is None:
                continue
            for queue_id in range(queue_count(entry.config)):
                lease = broker.locks.owner_of(group, QueueKey(topic, queue_id))
                rows.append(
                    [
                        topic,
                        queue_id,
                        broker.store.min_offset(entry.topic_id, queue_id),
                        broker.store.max_offset(entry.topic_id, queue_id),
                        committed.get((topic, queue_id), -1),
                        "" if lease is None else lease.owner,
                        -1 if lease is None else lease.token,
                    ]
                )
        return Reply({}, msgpack.packb(rows))

    def server_state(self, connection: Connection, request: Command) -> Reply:
        """Health: who this is and since when."""
        return Reply({"kind": "broker", "name": self._broker.config.name, "uptime_s": self._broker.uptime_s})

    def _answer_after_commit(self, connection: Connection, request: Command) -> None:
        self._broker.barrier.after_commit(
            lambda failure: (
                connection.respond(request) if failure is None else connection.respond_error(request, failure)
            )
        )
