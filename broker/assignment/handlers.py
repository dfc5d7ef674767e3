"""QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE, GET_GROUP_ASSIGNMENT. RocketMQ: QueryAssignmentProcessor."""

from __future__ import annotations

from typing import Any

import msgpack

from broker.assignment.group_assignments import TopicMode
from broker.broker import Broker
from broker.groups.group import ConsumerGroupInfo
from model.assignment import BROKER_STRATEGY, AssignmentQuery, RequestMode
from model.errors import GroupNotExist, IllegalOperation, InvalidParameter, RlabError
from model.events import EventKind
from model.heartbeat import MessageModel
from model.names import check_group, check_topic, is_retry_topic
from remoting.body import unpacked
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class AssignmentHandlers:
    """Shares queues out for groups that want that of their coordinator."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_GROUP_ASSIGNMENT: self.assignment,
        }

    def query(self, connection: Connection, request: Command) -> Reply:
        """What a member should have; see `broker/assignment/group_assignments.py`."""
        broker, header = self._broker, request.header
        group, client_id = header["group"], header["client_id"]
        member = broker.groups.member(group, client_id)
        if member.data.strategy != BROKER_STRATEGY or member.data.model is not MessageModel.CLUSTERING:
            raise IllegalOperation(
                f"{client_id!r} of group {group!r} shares queues out by {member.data.strategy} as its heartbeat says: "
                "send one that names the broker first"
            )
        info = broker.groups.get(group)
        assert info is not None, "a member's group exists"
        asked = AssignmentQuery.from_wire(header["version"], unpacked(request.body))
        outcome = broker.assignments.query(
            group,
            client_id,
            asked,
            group_version=info.version,
            members=lambda: _members(info),
            now_ms=int(broker.config.clock_ms()),
        )
        if outcome.moved >= 0:
            cause = broker.events.emit(
                EventKind.ASSIGNMENT_MADE,
                cause=header.get("cause") or info.cause,
                group=group,
                broker=broker.config.name,
                client=client_id,
                version=outcome.version,
                n=outcome.moved,
            )
        else:
            cause = header.get("cause") or ""
        if outcome.tell:
            self._tell(info, cause)
        share = outcome.share
        answer: dict[str, Any] = {"version": outcome.version, "look_again": outcome.look_again}
        if share is None:
            return Reply({**answer, "wait": True})
        if (share.version, share.queues) == (asked.version, asked.queues):
            return Reply({**answer, "unchanged": True})
        return Reply(answer, msgpack.packb(share.to_wire()))

    def set_mode(self, connection: Connection, request: Command) -> None:
        """Let a group pull or pop a topic from now on; answered once it is stored."""
        broker, header = self._broker, request.header
        group, topic = check_group(header["group"]), check_topic(header["topic"])
        try:
            mode = RequestMode(header["mode"])
        except ValueError as error:
            raise InvalidParameter(f"mode must be PULL or POP, got {header['mode']!r}") from error
        if is_retry_topic(topic):
            raise IllegalOperation(f"{topic!r} is a retry topic: its group pulls it, or pops it with what it pops")
        chosen = TopicMode(mode=mode, pop_share_queue_num=header["pop_share_queue_num"])
        if broker.assignments.mode_of(group, topic) != chosen:
            broker.assignments.set_mode(group, topic, chosen)
            broker.request_modes.save(group, topic, chosen)
            broker.barrier.metadata_changed()
            info = broker.groups.get(group)
            if info is not None and info.members:
                self._tell(info, broker.events.cause_of(header.get("cause")))

        def answer(failure: RlabError | None) -> None:
            if failure is None:
                connection.respond(request)
            else:
                connection.respond_error(request, failure)

        broker.barrier.after_commit(answer)

    def assignment(self, connection: Connection, request: Command) -> Reply:
        """The assignment of a group as it was made here last, and the modes of its topics."""
        broker, group = self._broker, check_group(request.header["group"])
        version, shares = broker.assignments.shares_of(group)
        modes = broker.assignments.modes_of(group)
        if not version and not modes and broker.groups.get(group) is None:
            raise GroupNotExist(f"group {group!r} is not known to broker {broker.config.name!r}")
        rows = [[client_id, *share.to_wire()] for client_id, share in shares.items()]
        set_modes = [[topic, mode.mode.value, mode.pop_share_queue_num] for topic, mode in modes.items()]
        return Reply({"version": version}, msgpack.packb([rows, set_modes]))

    def _tell(self, info: ConsumerGroupInfo, cause: str) -> None:
        """Let every member ask again."""
        broker = self._broker
        now = broker.loop.time()
        broker.groups.announce(info, cause, now)
        broker.metadata.save_group(info.group, info.version, info.created_ms)
        broker.barrier.metadata_changed()
        broker.notify_members(now)


def _members(info: ConsumerGroupInfo) -> dict[str, tuple[str, ...]]:
    """The members that ask, with their topics."""
    return {
        client_id: tuple(sorted(member.subscriptions))
        for client_id, member in sorted(info.members.items())
        if member.data.strategy == BROKER_STRATEGY and member.data.model is MessageModel.CLUSTERING
    }
