"""Membership: HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP. RocketMQ: ClientManageProcessor."""

from __future__ import annotations

from typing import Any

import msgpack

from broker.broker import Broker
from broker.group_table import HeartbeatOutcome
from model.errors import InvalidParameter
from model.events import EventKind
from model.heartbeat import ConsumerData, HeartbeatData
from model.names import check_group
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class GroupHandlers:
    """Keeps the groups; tells their members about changes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # group -> (version, encoded view): thousands of members ask for the same list, so it is encoded once a version.
        self._encoded_views: dict[str, tuple[int, bytes]] = {}

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
        }

    def heartbeat(self, connection: Connection, request: Command) -> Reply:
        """Join, stay in or change groups."""
        heartbeat = HeartbeatData.from_wire(_unpack(request.body))
        broker = self._broker
        broker.producers[connection.number] = heartbeat.producer_groups
        now, now_ms = broker.loop.time(), int(broker.config.clock_ms())
        groups: dict[str, list[int]] = {}
        for data in heartbeat.consumers:
            outcome = broker.groups.heartbeat(
                heartbeat.client_id, data, connection=connection.number, now=now, now_ms=now_ms
            )
            self._note(heartbeat, data, outcome, now)
            groups[data.group] = [outcome.group.version, outcome.group.created_ms]
            broker.driver.wake_by(now + data.session_timeout_s)
        broker.notify_members(now)
        return Reply({"groups": groups})

    def _note(self, heartbeat: HeartbeatData, data: ConsumerData, outcome: HeartbeatOutcome, now: float) -> None:
        """Make what a heartbeat did visible and durable."""
        if not (outcome.changed or outcome.expression_changed):
            return
        broker, info = self._broker, outcome.group
        retry_topic = broker.topics.ensure_retry_topic(info.group)
        if retry_topic is not None:
            broker.topic_changed(retry_topic, heartbeat.cause)
        kind = EventKind.MEMBER_JOIN if outcome.joined else EventKind.SUBSCRIPTION_CHANGE
        cause = heartbeat.cause or broker.events.next_id()
        if outcome.changed:
            broker.groups.changed(info, cause, now)
        broker.events.emit(
            kind,
            cause=cause,
            group=info.group,
            broker=broker.config.name,
            client=heartbeat.client_id,
            version=info.version,
            n=len(info.members),
            detail=" ".join(f"{s.topic}={s.expression}" for s in data.subscriptions),
        )
        broker.metadata.save_member(heartbeat.client_id, data)
        broker.metadata.save_group(info.group, info.version, info.created_ms)
        broker.barrier.metadata_changed()

    def unregister(self, connection: Connection, request: Command) -> Reply:
        """Leave groups. RocketMQ also notifies when nothing was removed; here nothing changed and nobody is told."""
        broker, client_id = self._broker, request.header["client_id"]
        cause = request.header.get("cause") or broker.events.next_id()
        now = broker.loop.time()
        for group in request.header["groups"]:
            leave = broker.groups.unregister(group, client_id, cause=cause, now=now)
            if leave is not None:
                broker.member_left(leave, cause)
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
        version, encoded = self._encoded_views.get(group, (-1, b""))
        if version != info.version:
            encoded = msgpack.packb(info.view().to_wire())
            self._encoded_views[group] = (info.version, encoded)
        return Reply({"version": info.version}, encoded)


def _unpack(body: bytes | None) -> Any:
    try:
        return msgpack.unpackb(body or b"")
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidParameter(f"the request's body is not valid msgpack: {error}") from error
