"""QUERY_ASSIGNMENT, QUERY_TOPIC_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE, GET_GROUP_ASSIGNMENT.

Members request their assignment; operators choose whether a group pulls or pops a topic, and read the last assignment.

RocketMQ: QueryAssignmentProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from broker.assignment.group_assignments import GroupAssignments, TopicMode
from broker.assignment.topic_sharing import queues_to_pop, queues_to_pull
from broker.durability.metadata import Table
from broker.feature import Core, Feature
from broker.groups.group import ConsumerGroupInfo
from broker.groups.members import Groups
from broker.topics.service import Topics
from model.assignment import BROKER_STRATEGY, AssignmentQuery, RequestMode
from model.errors import GroupNotExist, IllegalOperation, InvalidParameter
from model.events import EventKind
from model.heartbeat import MessageModel
from model.message_queue import MessageQueue
from model.names import check_group, check_topic, is_retry_topic
from remoting.body import unpack_body
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_SCHEMA = """
create table if not exists request_modes (
    group_name text not null, topic text not null, mode text not null, pop_share_queue_num integer not null,
    primary key (group_name, topic)
) without rowid;
"""


class Assignment(Feature):
    """Assigns queues for groups that ask their coordinator for it, and keeps how groups get messages.

    The modes are stored; the assignments of a broker that starts again come from the reports of members.
    """

    def __init__(self, core: Core, topics: Topics, groups: Groups) -> None:
        self.assignments = GroupAssignments()
        self._core = core
        self._topics = topics
        self._groups = groups
        core.metadata.add_tables(_SCHEMA)
        self._modes = Table(core.metadata, "request_modes", replicated=True)
        for group, topic, mode, share in self._modes.rows():
            self.assignments.set_mode(group, topic, TopicMode(mode=RequestMode(mode), pop_share_queue_num=share))

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.QUERY_TOPIC_ASSIGNMENT: self.query_topic,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_GROUP_ASSIGNMENT: self.assignment,
        }

    def query(self, connection: Connection, request: Command) -> Reply:
        """The queues of a member; see `broker/assignment/group_assignments.py`."""
        core, header = self._core, request.header
        group, client_id = header["group"], header["client_id"]
        member = self._groups.table.member(group, client_id)
        if member.data.strategy != BROKER_STRATEGY or member.data.model is not MessageModel.CLUSTERING:
            raise IllegalOperation(
                f"{client_id!r} of group {group!r} has the strategy {member.data.strategy} according to its heartbeat: "
                "send one that names the broker first"
            )
        info = self._groups.table.get(group)
        assert info is not None, "a member's group exists"
        query = AssignmentQuery.from_wire(header["version"], unpack_body(request.body))
        outcome = self.assignments.query(
            group,
            client_id,
            query,
            group_version=info.version,
            members=lambda: _members(info),
            now_ms=int(core.clock_ms()),
        )
        if outcome.moved >= 0:
            cause = core.emit(
                EventKind.ASSIGNMENT_MADE,
                cause=header.get("cause") or info.cause,
                group=group,
                client=client_id,
                version=outcome.version,
                n=outcome.moved,
            )
        else:
            cause = header.get("cause") or ""
        if outcome.notify:
            self._groups.notify_all(info, cause)
        assignment = outcome.assignment
        answer: dict[str, Any] = {"version": outcome.version, "look_again": outcome.look_again}
        if assignment is None:
            return Reply({**answer, "wait": True})
        if (assignment.version, assignment.queues) == (query.version, query.queues):
            return Reply({**answer, "unchanged": True})
        return Reply(answer, msgpack.packb(assignment.to_wire()))

    async def query_topic(self, connection: Connection, request: Command) -> Reply:
        """The queues of one topic for a member, computed without state; see `broker/assignment/topic_sharing.py`."""
        header = request.header
        group, client_id, topic = check_group(header["group"]), header["client_id"], check_topic(header["topic"])
        route = await self._topics.registration.route(topic)
        info = self._groups.table.get(group)
        each = {} if info is None else info.members
        members = sorted(client for client, member in each.items() if topic in member.subscriptions)
        if client_id not in members:
            raise GroupNotExist(f"{client_id!r} is not a member of group {group!r} that subscribes to {topic!r} here")
        mode, queues = self.assignments.mode_of(group, topic), route.subscribe_queues()
        if mode.mode is RequestMode.POP:
            queues_of_client: Sequence[MessageQueue] = queues_to_pop(
                client_id, queues, members, mode.pop_share_queue_num
            )
        else:
            queues_of_client = queues_to_pull(client_id, queues, members, header["strategy"])
        return Reply(
            {"mode": mode.mode.value}, msgpack.packb([(each.broker_name, each.queue_id) for each in queues_of_client])
        )

    def set_mode(self, connection: Connection, request: Command) -> None:
        """Set whether a group pulls or pops a topic from now on; the answer follows once it is stored."""
        core, header = self._core, request.header
        group, topic = check_group(header["group"]), check_topic(header["topic"])
        try:
            mode = RequestMode(header["mode"])
        except ValueError as error:
            raise InvalidParameter(f"mode must be PULL or POP, got {header['mode']!r}") from error
        if is_retry_topic(topic):
            raise IllegalOperation(f"{topic!r} is a retry topic: its group pulls it, or pops it with its other topics")
        chosen = TopicMode(mode=mode, pop_share_queue_num=header["pop_share_queue_num"])
        if self.assignments.mode_of(group, topic) != chosen:
            self.assignments.set_mode(group, topic, chosen)
            self._modes.put(group, topic, chosen.mode.value, chosen.pop_share_queue_num)
            core.barrier.metadata_changed()
            info = self._groups.table.get(group)
            if info is not None and info.members:
                self._groups.notify_all(info, core.events.cause_of(header.get("cause")))
        core.barrier.respond_after_commit(connection, request)

    def assignment(self, connection: Connection, request: Command) -> Reply:
        """The last assignment of a group that this broker has made, and the modes of its topics."""
        group = check_group(request.header["group"])
        version, assignments = self.assignments.assignments_of(group)
        modes = self.assignments.modes_of(group)
        if not version and not modes and self._groups.table.get(group) is None:
            raise GroupNotExist(f"group {group!r} is not known to broker {self._core.name!r}")
        rows = [[client_id, *each.to_wire()] for client_id, each in assignments.items()]
        set_modes = [[topic, mode.mode.value, mode.pop_share_queue_num] for topic, mode in modes.items()]
        return Reply({"version": version}, msgpack.packb([rows, set_modes]))

    # --- what happens elsewhere --------------------------------------------------------------------------------------

    def is_popped(self, group: str, topic: str) -> bool:
        """Whether an operator has set this group to pop this topic."""
        return self.assignments.mode_of(group, topic).mode is RequestMode.POP

    def member_left(self, group: str, client_id: str, cause: str, reason: str) -> None:
        """Forget the assignment of a group without members; its modes stay."""
        info = self._groups.table.get(group)
        if info is None or not info.members:
            self.assignments.forget(group)

    def has_group_data(self, group: str) -> bool:
        """Whether modes were set for a group."""
        return bool(self.assignments.modes_of(group))

    def group_deleted(self, group: str, cause: str) -> None:
        """Forget a group with its modes."""
        self.assignments.delete(group)
        self._modes.delete_where("group_name", group)


def _members(info: ConsumerGroupInfo) -> dict[str, tuple[str, ...]]:
    """The members that ask, with their topics."""
    return {
        client_id: tuple(sorted(member.subscriptions))
        for client_id, member in sorted(info.members.items())
        if member.data.strategy == BROKER_STRATEGY and member.data.model is MessageModel.CLUSTERING
    }
