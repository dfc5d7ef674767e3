"""The records of assignment by a broker: the query of a member and its answer. RocketMQ: QueryAssignment.

A member sends the last answer that it has applied, and the routes of the group's topics as it sees them. So the broker
needs nothing from other brokers, and the next coordinator continues from the last assignment
(`broker/assignment/group_assignments.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from model.errors import InvalidParameter
from model.limits import MAX_ASSIGNED_QUEUES, MAX_QUEUES_PER_TOPIC
from model.message_queue import MessageQueue
from model.names import check_id, check_topic

BROKER_STRATEGY = "BROKER"
"""Name of the strategy in the heartbeats of members whose queues the broker assigns."""
ALL_QUEUES = -1
"""Queue id that stands for all queues of a topic on a broker, where they are popped."""

TopicQueues = tuple[tuple[str, int], ...]
"""(broker name, readable queues) of each broker that serves a topic; sorted."""


class AssignedBy(StrEnum):
    """The side that assigns queues to members."""

    CLIENT = "client"
    """Each member assigns its own queues, with its strategy."""
    BROKER = "broker"
    """One broker for the whole group."""


class RequestMode(StrEnum):
    """Mode in which the members of a group get messages of a topic. RocketMQ: MessageRequestMode."""

    PULL = "PULL"
    """Each queue has one member."""
    POP = "POP"
    """Each message has one member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentQuery:
    """The request of a member for its target.

    Attributes:
        version: of the newest assignment that it has applied, 0 if there was none; `queues` is its target in that.
        popped: topics that are popped in it -> the number of other members whose queues each member pops too.
        routes: topic -> its queues, for each topic that any member of the group subscribes to.
    """

    version: int
    queues: tuple[MessageQueue, ...]
    popped: dict[str, int]
    routes: dict[str, TopicQueues]

    def to_wire(self) -> list[Any]:
        """Form for a frame's body; the version travels in the header."""
        routes = [[topic, list(map(list, queues))] for topic, queues in self.routes.items()]
        return [_packed(self.queues), list(map(list, self.popped.items())), routes]

    @classmethod
    def from_wire(cls, version: int, wire: Any) -> AssignmentQuery:
        """Read the form of a frame's body.

        Raises:
            InvalidParameter: the form is not a query, or a name or count is illegal.
        """
        try:
            queues, popped, routes = wire
            read = {check_topic(topic): _topic_queues(of_topic) for topic, of_topic in routes}
            total = sum(count for of_topic in read.values() for _, count in of_topic)
            claimed = _unpacked(queues)
            of_popped = {check_topic(topic): _share(share) for topic, share in popped}
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidParameter(f"the query of an assignment is malformed: {error!r}") from error
        if (count := max(total, len(claimed), len(read), len(of_popped))) > MAX_ASSIGNED_QUEUES:
            raise InvalidParameter(
                f"a broker assigns at most {MAX_ASSIGNED_QUEUES} queues or topics of a group, got {count}"
            )
        return cls(version=version, queues=claimed, popped=of_popped, routes=read)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """The target of one member in an assignment.

    Attributes:
        queues: sorted; for topics that are popped, `ALL_QUEUES` may stand for all queues on a broker.
        popped: topics of the member that are popped, with the number that was set; the others are pulled.
    """

    version: int
    queues: tuple[MessageQueue, ...]
    popped: dict[str, int] = field(default_factory=dict)

    def to_wire(self) -> list[Any]:
        """Form for a frame's body; the version travels in the header."""
        return [_packed(self.queues), list(map(list, self.popped.items()))]

    @classmethod
    def from_wire(cls, version: int, wire: Any) -> MemberAssignment:
        """Read the form of a frame's body; a broker is trusted to send a well-formed one."""
        queues, popped = wire
        return cls(version=version, queues=_unpacked(queues), popped=dict(popped))


def topic_queues(queues: Iterable[MessageQueue]) -> TopicQueues:
    """Count the queues of a topic by broker; they are numbered from 0 on each."""
    counts: dict[str, int] = {}
    for queue in queues:
        counts[queue.broker_name] = max(counts.get(queue.broker_name, 0), queue.queue_id + 1)
    return tuple(sorted(counts.items()))


def _topic_queues(wire: Any) -> TopicQueues:
    counts: dict[str, int] = {}
    for broker_name, count in wire:
        if type(count) is not int or not 0 <= count <= MAX_QUEUES_PER_TOPIC:
            raise InvalidParameter(f"readable queues on {broker_name!r} must be 0 to {MAX_QUEUES_PER_TOPIC}")
        counts[check_id("broker name", broker_name)] = count
    return tuple(sorted(counts.items()))


def _share(wire: Any) -> int:
    if type(wire) is not int or not -(2**31) <= wire < 2**31:
        raise InvalidParameter("the share of a popped topic must be a whole number of 32 bits")
    return wire


def _packed(queues: Iterable[MessageQueue]) -> list[list[Any]]:
    ids: dict[tuple[str, str], list[int]] = {}
    for topic, broker_name, queue_id in queues:
        ids.setdefault((topic, broker_name), []).append(queue_id)
    return [[topic, broker_name, numbers] for (topic, broker_name), numbers in ids.items()]


def _unpacked(wire: Any) -> tuple[MessageQueue, ...]:
    queues = []
    for topic, broker_name, numbers in wire:
        if type(topic) is not str or type(broker_name) is not str:
            raise InvalidParameter(f"a queue needs the names of its topic and broker, got {topic!r}, {broker_name!r}")
        for queue_id in numbers:
            if type(queue_id) is not int or not ALL_QUEUES <= queue_id < MAX_QUEUES_PER_TOPIC:
                raise InvalidParameter(f"queue ids of {topic!r} must be {ALL_QUEUES} to {MAX_QUEUES_PER_TOPIC - 1}")
            queues.append(MessageQueue(topic, broker_name, queue_id))
    return tuple(queues)
