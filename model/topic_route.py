"""Topics and their routes, which brokers register and clients poll. RocketMQ: TopicConfig, TopicRouteData.

Read and write queue counts are separate so that a topic can shrink without losing messages: lower the write count,
let consumers drain the rest, then lower the read count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any

from model.arguments import check_whole
from model.errors import InvalidParameter
from model.limits import MAX_QUEUES_PER_TOPIC
from model.message_queue import MessageQueue
from model.names import check_topic

MASTER_ID = 0
"""Broker id of the master; greater ids are its replicas."""


class Perm(IntFlag):
    """Permissions of a topic or a broker. RocketMQ: PermName."""

    NONE = 0
    INHERIT = 1
    WRITE = 2
    READ = 4


READ_WRITE = Perm.READ | Perm.WRITE


class MessageType(IntEnum):
    """The type of the messages that a topic takes; MIXED takes all of them. RocketMQ: TopicMessageType."""

    MIXED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic as one broker has it."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: Perm = READ_WRITE
    message_type: MessageType = MessageType.MIXED

    def to_wire(self) -> list[Any]:
        """Flat form for a frame: earlier versions unpack exactly four values, so a frame has the type elsewhere."""
        return [self.topic, self.read_queue_nums, self.write_queue_nums, int(self.perm)]

    def to_stored(self) -> list[Any]:
        """Flat form for the disk, with the type. Without one an earlier version can read it, too."""
        return [*self.to_wire(), *([int(self.message_type)] if self.message_type else [])]

    @classmethod
    def from_wire(cls, wire: Any, message_type: int = 0) -> TopicConfig:
        """Read either flat form; brokers and their stored data are trusted to be well-formed."""
        topic, read_queue_nums, write_queue_nums, perm, *stored = wire
        return cls(
            topic=topic,
            read_queue_nums=read_queue_nums,
            write_queue_nums=write_queue_nums,
            perm=Perm(perm),
            message_type=MessageType(stored[0] if stored else message_type),
        )

    def at_broker(self, broker_name: str) -> QueueData:
        """The queues of the topic at this broker, as a route has them."""
        return QueueData(
            broker_name=broker_name,
            read_queue_nums=self.read_queue_nums,
            write_queue_nums=self.write_queue_nums,
            perm=self.perm,
            message_type=self.message_type,
        )


def checked_topic_config(
    topic: str,
    read_queue_nums: int,
    write_queue_nums: int,
    perm: Perm,
    message_type: MessageType = MessageType.MIXED,
) -> TopicConfig:
    """Make a topic config whose name and counts are legal.

    Raises:
        InvalidParameter: illegal name, or a count outside 0..65536 (1 for the larger of the two).
    """
    check_topic(topic)
    for direction, count in (("read", read_queue_nums), ("write", write_queue_nums)):
        check_whole(f"{direction} queues of topic {topic!r}", count, 0, MAX_QUEUES_PER_TOPIC)
    if max(read_queue_nums, write_queue_nums) < 1:
        raise InvalidParameter(f"topic {topic!r} needs at least one queue")
    return TopicConfig(
        topic=topic,
        read_queue_nums=read_queue_nums,
        write_queue_nums=write_queue_nums,
        perm=perm,
        message_type=message_type,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData:
    """The queues of one topic on one broker. RocketMQ: QueueData."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: Perm
    message_type: MessageType = MessageType.MIXED


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData:
    """One broker name and its addresses by broker id. RocketMQ: BrokerData.

    For a set of replicas, `set_id` is its number, and `epoch` the number of the mastership that registered last. If two
    answers about a set differ, the one with the higher epoch is right. Both are 0 without a set.
    """

    cluster: str
    broker_name: str
    addresses: dict[int, str]
    set_id: int = 0
    epoch: int = 0

    @property
    def master(self) -> str | None:
        """Address of the master, or None while it is away."""
        return self.addresses.get(MASTER_ID)


def broker_data(cluster: str, broker_name: str, addresses: Any, set_id: int = 0, epoch: int = 0) -> BrokerData:
    """Make a broker of the parts that a name server sends; `addresses` are pairs of broker id and `host:port`."""
    by_id = {int(broker_id): str(address) for broker_id, address in addresses}
    return BrokerData(cluster=cluster, broker_name=broker_name, addresses=by_id, set_id=set_id, epoch=epoch)


class SortedQueues(tuple[MessageQueue, ...]):
    """Queues in order, so that a strategy need not sort them again.

    If each of a thousand members sorted four thousand queues, a pass would spend most of its time on that.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """The route of a topic, as one name server knows it now; queues and brokers sorted by broker name.

    RocketMQ: TopicRouteData.
    """

    topic: str
    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    # Permission -> queue list, computed once: the clients of one process share a route.
    _made: dict[Perm, SortedQueues] = field(default_factory=dict, init=False, repr=False, compare=False)

    def subscribe_queues(self) -> SortedQueues:
        """Every queue that can be read, sorted. RocketMQ: topicRouteData2TopicSubscribeInfo."""
        if Perm.READ not in self._made:
            self._made[Perm.READ] = SortedQueues(
                MessageQueue(self.topic, data.broker_name, queue_id)
                for data in self.queues
                if data.perm & Perm.READ
                for queue_id in range(data.read_queue_nums)
            )
        return self._made[Perm.READ]

    def publish_queues(self) -> SortedQueues:
        """Every queue that can be written, on brokers that have a master, sorted.

        RocketMQ: topicRouteData2TopicPublishInfo.
        """
        if Perm.WRITE not in self._made:
            with_master = {broker.broker_name for broker in self.brokers if broker.master is not None}
            self._made[Perm.WRITE] = SortedQueues(
                MessageQueue(self.topic, data.broker_name, queue_id)
                for data in self.queues
                if data.perm & Perm.WRITE and data.broker_name in with_master
                for queue_id in range(data.write_queue_nums)
            )
        return self._made[Perm.WRITE]

    def to_wire(self) -> dict[str, Any]:
        """Form for a frame's body."""
        wire: dict[str, Any] = {
            "topic": self.topic,
            "queues": [[q.broker_name, q.read_queue_nums, q.write_queue_nums, int(q.perm)] for q in self.queues],
            "brokers": [[b.cluster, b.broker_name, sorted(b.addresses.items())] for b in self.brokers],
        }
        # Earlier versions unpack exactly three values of a broker, and ignore a key that they do not know.
        if sets := [[b.broker_name, b.set_id, b.epoch] for b in self.brokers if b.set_id]:
            wire["sets"] = sets
        if types := {q.broker_name: int(q.message_type) for q in self.queues if q.message_type}:
            wire["message_types"] = types
        return wire

    @classmethod
    def from_wire(cls, wire: Any) -> TopicRoute:
        """Read the form of a frame's body; a name server is trusted to send a well-formed one."""
        sets = {name: (set_id, epoch) for name, set_id, epoch in wire.get("sets", ())}
        types = wire.get("message_types", {})
        return cls(
            topic=wire["topic"],
            queues=tuple(
                QueueData(
                    broker_name=name,
                    read_queue_nums=read,
                    write_queue_nums=write,
                    perm=Perm(perm),
                    message_type=MessageType(types.get(name, 0)),
                )
                for name, read, write, perm in sorted(wire["queues"])
            ),
            brokers=tuple(
                broker_data(cluster, name, addresses, *sets.get(name, (0, 0)))
                for cluster, name, addresses in sorted(wire["brokers"], key=lambda broker: str(broker[1]))
            ),
        )
