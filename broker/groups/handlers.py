"""Membership: HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP. RocketMQ: ClientManageProcessor."""

from __future__ import annotations

import msgpack

from broker.broker import Broker, Client
from broker.groups.table import HeartbeatOutcome
from model.events import EventKind
from model.heartbeat import ConsumerData, HeartbeatData
from model.names import check_group
from remoting.body import unpacked
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode

_MAX_WARNINGS = 16
"""In one answer; a client with more groups than that in trouble has been told enough."""


class GroupHandlers:
    """Keeps the groups; tells their members about changes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
        }

    def heartbeat(self, connection: Connection, request: Command) -> Reply:
        """Join, stay in or change groups."""
        heartbeat = HeartbeatData.from_wire(unpacked(request.body))
        broker = self._broker
        now = broker.loop.time()
        self._refuse_rivals(heartbeat, connection, now)
        broker.clients[connection.number] = Client(connection, heartbeat.producer_groups)
        groups: dict[str, tuple[int, int, bool]] = {}
        warnings: list[str] = []
        try:
            for data in heartbeat.consumers:
                outcome = self._take(heartbeat, data, connection, now)
                groups[data.group] = (outcome.group.version, outcome.group.created_ms, outcome.joined)
                warnings += broker.group_watch.warnings(outcome.group, outcome.member)
        finally:
            # Also when one of its groups was refused: the members of those before it have to be told.
            broker.notify_members(now)
        return Reply({"groups": groups, "warnings": warnings[:_MAX_WARNINGS]} if warnings else {"groups": groups})

    def _refuse_rivals(self, heartbeat: HeartbeatData, connection: Connection, now: float) -> None:
        """Refuse a second process with one client id: first, so that it joins none of its groups.

        Raises:
            ClientIdConflict: the member that it would replace is alive, and another process.
        """
        broker = self._broker
        for data in heartbeat.consumers:
            member = broker.groups.rival(data.group, heartbeat.client_id, heartbeat.epoch, connection.number)
            if member is not None:
                raise broker.group_watch.refuse(
                    data.group,
                    member,
                    broker.clients[member.connection].connection.peer,
                    epoch=heartbeat.epoch,
                    newcomer_at=connection.peer,
                    cause=broker.events.cause_of(heartbeat.cause),
                    now=now,
                )

    def _take(
        self, heartbeat: HeartbeatData, data: ConsumerData, connection: Connection, now: float
    ) -> HeartbeatOutcome:
        """Take one group of a heartbeat, and make what it did visible and durable."""
        broker, client_id = self._broker, heartbeat.client_id
        # First, because it may be refused, and then nobody has joined.
        retry_topic = broker.topics.ensure_retry_topic(data.group)
        if retry_topic is not None:
            broker.topic_changed(retry_topic, heartbeat.cause)
        cause = broker.events.cause_of(heartbeat.cause)
        replaced = broker.groups.replace(data.group, client_id, heartbeat.epoch, cause=cause, now=now)
        if replaced is not None:
            broker.member_left(replaced, cause)
        outcome = broker.groups.heartbeat(
            client_id,
            data,
            connection=connection.number,
            cause=cause,
            now=now,
            now_ms=int(broker.config.clock_ms()),
            epoch=heartbeat.epoch,
        )
        info = outcome.group
        broker.driver.wake_by(now + data.session_timeout_s)
        if outcome.joined or outcome.resubscribed:
            broker.events.emit(
                EventKind.MEMBER_JOIN if outcome.joined else EventKind.SUBSCRIPTION_CHANGE,
                cause=cause,
                group=info.group,
                broker=broker.config.name,
                client=client_id,
                version=info.version,
                n=len(info.members),
                detail=" ".join(f"{s.topic}={s.expression}" for s in data.subscriptions),
            )
        broker.group_watch.look(info, cause)
        if outcome.restated:
            broker.metadata.save_member(client_id, data, heartbeat.epoch)
            broker.metadata.save_group(info.group, info.version, info.created_ms)
            broker.barrier.metadata_changed()
        return outcome

    def unregister(self, connection: Connection, request: Command) -> Reply:
        """Leave groups. RocketMQ also notifies when nothing was removed; here nothing changed and nobody is told."""
        broker, client_id = self._broker, request.header["client_id"]
        cause = broker.events.cause_of(request.header.get("cause"))
        now = broker.loop.time()
        for group in request.header["groups"]:
            leave = broker.groups.unregister(group, client_id, cause=cause, now=now, connection=connection.number)
            if leave is not None:
                broker.member_left(leave, cause)
            broker.pops.member_left(connection, group, client_id)
            broker.features.client_unregistered(connection, group, client_id)
        broker.notify_members(now)
        return Reply({})

    def consumer_list(self, connection: Connection, request: Command) -> Reply:
        """Members of a group; a few bytes when the caller knows this version already."""
        group = check_group(request.header["group"])
        info = self._broker.groups.get(group)
        if info is None:
            return Reply({"version": 0}, msgpack.packb([0, []]))
        if request.header["known_version"] == info.version:
            return Reply({"version": info.version, "unchanged": True})
        if info.encoded_version != info.version:
            info.encoded_view, info.encoded_version = msgpack.packb(info.view().to_wire()), info.version
        return Reply({"version": info.version}, info.encoded_view)
