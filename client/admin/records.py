"""The frozen records that `Admin` returns about brokers, topics and groups, read from the answers of brokers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from model.absent_broker import Absence, AbsentBroker
from model.assignment import ALL_QUEUES, MemberAssignment, RequestMode
from model.group_agreement import Disagreement
from model.group_settings import GroupSettings
from model.heartbeat import ConsumerData, ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.names import is_retry_topic, retry_topic
from model.subscription import SubscriptionData
from model.topic_route import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """Offsets that a queue holds, from `min_offset`, inclusive, to `max_offset`, exclusive."""

    min_offset: int
    max_offset: int
    damaged: int = 0  # messages of them that the broker found damaged or missing in its files


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic as one broker has it; `ranges` has an entry per queue id, up to the larger of the two queue counts."""

    config: TopicConfig
    ranges: tuple[QueueRange, ...]


_OF_NEWER_BROKERS = (
    *("disk_full", "disk_free_bytes", "disk_total_bytes", "log_held_bytes", "log_held_by"),
    "sync_running_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """The state of one broker."""

    name: str
    cluster: str
    address: str  # `host:port` that it was asked at
    uptime_s: float
    topics: tuple[TopicInfo, ...]  # sorted by name, system topics included
    groups: int
    held_pulls: int  # pulls that wait for messages now
    producers: int  # producer groups, counted once per connection
    events_dropped: int  # events lost because they came faster than they could be stored
    quirks: tuple[str, ...]  # names of the defects it reproduces, sorted
    disk_full: bool = False  # whether it refuses sends because of that; an older broker does not report these three
    disk_free_bytes: int = -1  # of the file system that holds its data
    disk_total_bytes: int = -1
    log_held_bytes: int = 0  # part of the log that the limits would delete, but that is still needed
    log_held_by: str = ""  # a sentence that names the holder and the remedy
    sync_running_s: float = 0.0  # how long the sync of its disk that runs has taken

    @classmethod
    def from_wire(cls, address: str, wire: Any) -> BrokerInfo:
        """Read the answer to GET_BROKER_RUNTIME_INFO; a broker is trusted to send a well-formed one."""
        damaged, types = wire.get("damaged", {}), wire.get("message_types", {})  # not from an older broker
        plain = ("name", "cluster", "uptime_s", "groups", "held_pulls", "producers", "events_dropped")
        return cls(
            **{name: wire[name] for name in plain},
            address=address,
            topics=tuple(
                TopicInfo(
                    config=TopicConfig.from_wire(config, types.get(config[0], 0)),
                    ranges=tuple(
                        QueueRange(min_offset=low, max_offset=high, damaged=damaged.get(config[0], {}).get(queue_id, 0))
                        for queue_id, (low, high) in enumerate(ranges)
                    ),
                )
                for *config, ranges in wire["topics"]
            ),
            quirks=tuple(wire["quirks"]),
            **{name: wire[name] for name in _OF_NEWER_BROKERS if name in wire},
        )

    def topic(self, name: str) -> TopicInfo | None:
        """The topic of that name, or None."""
        return next((topic for topic in self.topics if topic.config.topic == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One line of a list of groups."""

    group: str
    members: int  # connected ones; 0 for a group that only left offsets behind
    brokers: tuple[str, ...]  # names of the brokers that know it, sorted


def describe_expiry(expires_in_s: float) -> str:
    """The time until a member leaves, for texts; after its connection was closed, only tenths of a second are left."""
    left_s = max(0.0, expires_in_s)
    return f"{left_s:.1f} s" if left_s < 10 else f"{left_s:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberInfo:
    """One member of a group, merged from the reports of all brokers."""

    client_id: str
    address: str  # `host:port` its connections come from, "" while it is not connected
    subscriptions: tuple[SubscriptionData, ...]  # sorted by topic
    strategy: str
    model: MessageModel
    consume_type: ConsumeType
    expires_in_s: float  # until it leaves unless it sends a heartbeat, at the broker that keeps it longest
    queues: tuple[MessageQueue, ...]  # those that it holds leases of now, sorted
    brokers: tuple[str, ...]  # names of those that list it, sorted; others do not know it yet, or no longer
    suspended: bool = False  # whether it calls no listeners for now; see `PushConsumer.suspend`
    # Broker name -> why it seems dead there, for the brokers that wait for its return or for the end of its session.
    away_at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """Progress of a group on one queue, its owner, and who should own it."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    committed: int | None  # offset that the group consumes next, or None when nothing was committed yet
    owner: str | None  # client id of the member that holds its lease
    # client ids the strategy assigns the queue to. One, in a group whose members agree; several if their strategies
    # or views differ, and always in BROADCASTING; none if no member subscribes to the topic.
    targets: tuple[str, ...] = ()
    damaged: int = 0  # messages of the queue that the broker found damaged or missing in its files
    start: int | None = None  # where the group begins, if nothing was committed yet and a member subscribes
    in_flight: int | None = None  # messages that its owner was sent and has not committed, if its broker knows it

    @classmethod
    def from_wire(
        cls, broker_name: str, wire: Any, damaged: int = 0, start: int | None = None, in_flight: int | None = None
    ) -> QueueProgress:
        """Read one row of the answer to GET_CONSUME_STATS, which has no targets; its header has the other arguments."""
        topic, queue_id, min_offset, max_offset, committed, owner, _ = wire
        return cls(
            queue=MessageQueue(topic, broker_name, queue_id),
            min_offset=min_offset,
            max_offset=max_offset,
            committed=None if committed < 0 else committed,
            owner=owner or None,
            damaged=damaged,
            start=start,
            in_flight=None if in_flight is None else max(0, in_flight),
        )

    @property
    def lag(self) -> int | None:
        """Messages left to consume; None when that depends on where the group will start."""
        begin = self.start if self.committed is None else self.committed
        if begin is not None:
            return max(0, self.max_offset - max(begin, self.min_offset))
        return 0 if self.min_offset == self.max_offset else None

    @property
    def deleted(self) -> int:
        """Messages that were deleted before the group read them, and that it has not skipped yet."""
        return 0 if self.committed is None else max(0, self.min_offset - self.committed)

    @property
    def settled(self) -> bool:
        """Whether the owner of the queue is its target."""
        return self.targets == (() if self.owner is None else (self.owner,))


def progress_from_wire(broker_name: str, rows: Any, extra: Mapping[str, Any]) -> tuple[QueueProgress, ...]:
    """Read the answer to GET_CONSUME_STATS; `extra` is its header."""
    damaged, starts, sent = (
        {(topic, queue_id): n for topic, queue_id, n in extra.get(name, ())} for name in ("damaged", "starts", "sent")
    )
    return tuple(
        QueueProgress.from_wire(
            broker_name, row, damaged.get((row[0], row[1]), 0), starts.get((row[0], row[1])), sent.get((row[0], row[1]))
        )
        for row in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicModeInfo:
    """The mode in which a group gets the messages of a topic; see `Admin.set_request_mode`."""

    topic: str
    mode: RequestMode
    pop_share_queue_num: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    """The newest assignment of a group that any broker knows of."""

    coordinator: str  # name of the broker that made it; "" before the first
    version: int  # its number; 0 before the first
    members: Mapping[str, MemberAssignment]  # client id -> its assignment
    modes: tuple[TopicModeInfo, ...]  # what operators set for topics of the group, sorted

    def targets(self) -> dict[MessageQueue, str]:
        """The member that should own each queue that is pulled."""
        return {
            queue: client_id
            for client_id, member in self.members.items()
            for queue in member.queues
            if queue.topic not in member.popped and queue.queue_id != ALL_QUEUES
        }

    @property
    def popped(self) -> frozenset[str]:
        """Topics that members pop."""
        return frozenset(topic for member in self.members.values() for topic in member.popped)


NO_HEADER: Mapping[str, Any] = {}
NO_ASSIGNMENT = AssignmentInfo(coordinator="", version=0, members={}, modes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PoppedQueue:
    """A queue of which a group has popped messages that are not acknowledged; see GET_POP_STATS."""

    queue: MessageQueue
    first_unended: int  # the lowest offset that is not acknowledged
    next_offset: int  # the first offset that was never delivered
    in_flight: int  # messages that are invisible
    to_come_again: int  # messages that wait for the next pop: their invisible time ended, or they were requeued
    oldest_ms: float | None  # age of the oldest delivery of an invisible message; None without any
    # time until the next of them is redelivered unless it is acknowledged; None without any
    next_visible_ms: float | None
    most_attempts: int  # deliveries of the message that was delivered most often
    handing_over: bool  # whether the queue drains, because members want to pull it
    # client id -> its invisible messages; also of members that have left, until their time ends
    in_flight_of: Mapping[str, int]

    @classmethod
    def from_wire(cls, broker_name: str, wire: Any) -> PoppedQueue:
        """Read one row of the answer to GET_POP_STATS."""
        topic, queue_id, floor, next_offset, in_flight, due, oldest_ms, next_ms, attempts, draining, by_client = wire
        return cls(
            queue=MessageQueue(topic, broker_name, queue_id),
            first_unended=floor,
            next_offset=next_offset,
            in_flight=in_flight,
            to_come_again=due,
            oldest_ms=oldest_ms if in_flight else None,
            next_visible_ms=next_ms if in_flight else None,
            most_attempts=attempts,
            handing_over=draining,
            in_flight_of={client_id: count for client_id, count in sorted(by_client)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A consumer group now."""

    group: str
    version: int  # the newest version of its member list on any broker; 0 if no broker has one
    created_ms: int  # wall clock in milliseconds; 0 if not known
    members: tuple[GroupMemberInfo, ...]
    queues: tuple[QueueProgress, ...]  # all of every topic that it subscribes to or has offsets on, sorted
    disagreements: tuple[Disagreement, ...]  # settings that must be the same for all members and are not, sorted
    unknown_strategies: tuple[str, ...]  # neither built in nor installed here, so `targets` leaves their members out
    unreachable: tuple[str, ...]  # names of brokers that did not answer; what only they know is missing
    assignment: AssignmentInfo = NO_ASSIGNMENT  # by a broker, for the members that leave it to one
    popped_queues: tuple[PoppedQueue, ...] = ()
    settings: Mapping[str, GroupSettings] = field(default_factory=dict)  # by broker name, sorted
    absence: Absence | None = None  # the absent brokers of the cluster
    absent_queues: tuple[MessageQueue, ...] = ()  # queues of its topics that are away with them, sorted

    @property
    def away(self) -> Mapping[str, AbsentBroker]:
        """The absent brokers whose queues are away with them, by name."""
        return {} if self.absence is None else self.absence.masters

    @property
    def switched_off(self) -> tuple[str, ...]:
        """Names of the brokers that give its members no messages."""
        return tuple(name for name, settings in self.settings.items() if not settings.consume)

    def popped_by(self, member: GroupMemberInfo) -> frozenset[str]:
        """Topics of which the member pops messages, instead of pulling queues that it has; retry topics left out."""
        topics = frozenset(each.topic for each in member.subscriptions if not is_retry_topic(each.topic))
        if member.consume_type is ConsumeType.POP:
            return topics
        assigned = self.assignment.members.get(member.client_id)
        return frozenset() if assigned is None else topics & frozenset(assigned.popped)

    def mode_of(self, member: GroupMemberInfo) -> str:
        """`pop` or `pull`; `pull, pop` if it depends on the topic."""
        popped = self.popped_by(member)
        if not popped:
            return "pull"
        topics = {each.topic for each in member.subscriptions if not is_retry_topic(each.topic)}
        return "pop" if topics == popped else "pull, pop"

    @property
    def in_flight(self) -> int:
        """Messages that are invisible: popped, not acknowledged, and their time has not ended."""
        return sum(each.in_flight for each in self.popped_queues)

    def in_flight_of(self, client_id: str) -> int:
        """Invisible messages of one member."""
        return sum(each.in_flight_of.get(client_id, 0) for each in self.popped_queues)

    @property
    def broadcasting(self) -> bool:
        """Whether a member reads every queue, without leases."""
        return any(member.model is MessageModel.BROADCASTING for member in self.members)

    @property
    def lag(self) -> int:
        """Messages left to consume, on the queues whose lag is known."""
        return sum(queue.lag or 0 for queue in self.queues)

    @property
    def stranded(self) -> tuple[MessageQueue, ...]:
        """Queues of subscribed topics that no member should own, because the strategies of the members disagree."""
        wanted_topics = {subscription.topic for member in self.members for subscription in member.subscriptions}
        wanted_topics -= self.assignment.popped
        for member in self.members:
            wanted_topics -= self.popped_by(member)
            if member.consume_type is ConsumeType.POP:
                wanted_topics.discard(retry_topic(self.group))
        return tuple(each.queue for each in self.queues if not each.targets and each.queue.topic in wanted_topics)

    @property
    def unattended(self) -> Mapping[str, tuple[MessageQueue, ...]]:
        """Client id of a member that does not answer -> the queues that it still owns, at brokers that miss it."""
        queues_of: dict[str, list[MessageQueue]] = {}
        away_at = {member.client_id: member.away_at for member in self.members if member.away_at}
        for each in self.queues:
            if each.owner is not None and each.queue.broker_name in away_at.get(each.owner, {}):
                queues_of.setdefault(each.owner, []).append(each.queue)
        return {client_id: tuple(queues) for client_id, queues in sorted(queues_of.items())}

    @property
    def balanced(self) -> bool:
        """Whether the group has converged: every queue is owned by its target, and all owners answer."""
        settled = all(queue.settled for queue in self.queues)
        return settled and not self.unknown_strategies and not self.stranded and not self.unattended


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """One member as one broker knows it; see `GroupMemberInfo`."""

    client_id: str
    address: str
    expires_in_s: float
    consumer: ConsumerData
    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """A group as one broker reports it; an empty report means that the broker does not know the group."""

    broker_name: str
    version: int = 0
    created_ms: int = 0
    members: tuple[MemberReport, ...] = ()
    queues: tuple[QueueProgress, ...] = ()

    @classmethod
    def from_wire(
        cls, broker_name: str, connections: Any, stats: Any, extra: Mapping[str, Any] = NO_HEADER
    ) -> GroupReport:
        """Read the answers to GET_CONSUMER_CONNECTION_LIST and GET_CONSUME_STATS; None where the group is unknown.

        `extra` is the header of the latter.
        """
        connections = connections or {"version": 0, "created_ms": 0, "members": []}
        return cls(
            broker_name=broker_name,
            version=connections["version"],
            created_ms=connections["created_ms"],
            members=tuple(
                MemberReport(
                    client_id=member["client_id"],
                    address=member["address"] or "",
                    expires_in_s=member["expires_in_s"],
                    consumer=replace(
                        ConsumerData.from_wire(member["consumer"], {"sql": member.get("sql", ())}),
                        suspended=member.get("suspended", False),
                    ),
                    queues=tuple(MessageQueue(topic, broker_name, queue_id) for topic, queue_id in member["queues"]),
                )
                for member in connections["members"]
            ),
            queues=progress_from_wire(broker_name, stats or (), extra),
        )
