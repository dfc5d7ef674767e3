"""The heartbeat of a client to every broker, and the member list of a group. RocketMQ: HeartbeatData.

`HeartbeatData` has all groups of one client, each as a `ConsumerData` with its subscriptions and settings. A broker
answers with the version of each group. A member whose version is older fetches the list, a `GroupView`, or its
difference from the older list, and allocates queues by it.

Clients and brokers of different versions exchange `ConsumerData`, and brokers store it. So new fields go into the map
of `added`, and readers ignore the names there that they do not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from model.errors import InvalidParameter
from model.limits import (
    MAX_FIELD_CHARS,
    MAX_GROUPS_OF_CLIENT,
    MAX_NAME_CHARS,
    MAX_REJOIN_S,
    MAX_SUBSCRIPTIONS_PER_MEMBER,
)
from model.names import check_group, check_id, retry_topic
from model.subscription import Sql, SubscriptionData, make_subscription


class MessageModel(StrEnum):
    """Each queue has one member (clustering), or all members read all queues (broadcasting). RocketMQ: MessageModel."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeType(StrEnum):
    """Way in which members get messages. RocketMQ: ConsumeType."""

    ACTIVELY = "ACTIVELY"
    PASSIVELY = "PASSIVELY"
    POP = "POP"


class ConsumeFrom(StrEnum):
    """Start of a group without a committed offset. RocketMQ: ConsumeFromWhere."""

    LAST_OFFSET = "LAST_OFFSET"
    FIRST_OFFSET = "FIRST_OFFSET"
    TIMESTAMP = "TIMESTAMP"


MAX_NUMBER = 2**63 - 1
"""The largest number that a table of SQLite holds: a larger one from a client would make a broker's commit fail."""


def _check_number(subject: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        got = value if type(value) is int else f"a {type(value).__name__}"
        raise InvalidParameter(f"{subject} of a heartbeat must be a whole number from 0 to {MAX_NUMBER}, got {got}")
    return value


def _check_rejoin(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= MAX_REJOIN_S:
        raise InvalidParameter(f"rejoin_within_s of a heartbeat must be 0 to {MAX_REJOIN_S:g} s, got {value!r}")
    return float(value)


def _check_distinct(subject: str, names: list[str]) -> None:
    seen_names: set[str] = set()
    for name in names:
        if name in seen_names:
            raise InvalidParameter(f"the heartbeat names {subject} {name!r} twice")
        seen_names.add(name)


def _up_to_the_limit(subject: str, groups: Any) -> Any:
    if len(groups) > MAX_GROUPS_OF_CLIENT:
        raise InvalidParameter(f"the heartbeat has {len(groups)} {subject}, more than {MAX_GROUPS_OF_CLIENT}")
    return groups


def check_subscriptions(group: str, topics: Collection[str]) -> None:
    """Check how many topics a member of a group subscribes to.

    Raises:
        InvalidParameter: too many; the retry topic of the group does not count, because users do not subscribe to it.
    """
    n = len(topics) - (retry_topic(group) in topics)
    if n > MAX_SUBSCRIPTIONS_PER_MEMBER:
        raise InvalidParameter(
            f"a member of group {group!r} would have {n} subscriptions, more than {MAX_SUBSCRIPTIONS_PER_MEMBER}: "
            "divide the topics between several groups"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData:
    """One group of a heartbeat, with this client's settings in it. RocketMQ: ConsumerData.

    The flat form keeps the length that the first clients and brokers know. A new field goes into the map of `added`,
    under its name: an older reader ignores it, and a reader of an older form uses the default.

    Attributes:
        strategy: name of the allocation strategy, so that members that disagree can be reported.
        subscriptions: sorted by topic.
        session_timeout_s: how long the broker keeps this member without a heartbeat.
        consume_timestamp_ms: where `ConsumeFrom.TIMESTAMP` starts, wall clock in milliseconds.
        group_created_ms: when the group was created, 0 if this member does not know it. Brokers keep the earliest time
            that they receive, so that `LAST_OFFSET` is the same moment for all of them.
        suspended: whether this member calls no listeners for now.
        leaseless: whether this member asks for no leases, like RocketMQ's own clients: the broker acquires them for it.
        ordered: whether this member needs locks, because it consumes in order; sent to servers of RocketMQ only.
        rejoin_within_s: how long it stays a member after its process has ended, because the process comes back under
            the same client id; 0: not at all.
    """

    group: str
    consume_type: ConsumeType
    model: MessageModel
    consume_from: ConsumeFrom
    strategy: str
    subscriptions: tuple[SubscriptionData, ...]
    session_timeout_s: float
    consume_timestamp_ms: int = 0
    group_created_ms: int = 0
    suspended: bool = False
    rejoin_within_s: float = 0.0
    leaseless: bool = False
    ordered: bool = False

    def to_wire(self) -> list[Any]:
        """Flat form for a frame's body."""
        return [
            self.group,
            self.consume_type.value,
            self.model.value,
            self.consume_from.value,
            self.strategy,
            self.session_timeout_s,
            self.consume_timestamp_ms,
            self.group_created_ms,
            [[s.topic, s.expression, s.version] for s in self.subscriptions],
        ]

    def added(self) -> dict[str, Any]:
        """The fields that are not in the flat form, by name, without those that have their default."""
        fields: dict[str, Any] = {}
        if self.suspended:
            fields["suspended"] = True
        if self.leaseless:
            fields["leaseless"] = True
        if self.ordered:
            fields["ordered"] = True
        if self.rejoin_within_s:
            fields["rejoin_within_s"] = self.rejoin_within_s
        if filtered := [subscription.topic for subscription in self.subscriptions if subscription.is_sql]:
            fields["sql"] = filtered
        return fields

    def to_stored(self) -> list[Any]:
        """Form for the broker's table of members: the flat form, then the map of `added` unless it is empty."""
        return [*self.to_wire(), added] if (added := self.added()) else self.to_wire()

    @classmethod
    def from_stored(cls, wire: Any) -> ConsumerData:
        """Read the form of the broker's table of members.

        Raises:
            InvalidParameter, TypeError, ValueError: as for `from_wire`.
        """
        return cls.from_wire(wire[:9], wire[9] if len(wire) > 9 else {})

    @classmethod
    def from_wire(cls, wire: Any, added: Any = MappingProxyType({})) -> ConsumerData:
        """Read the flat form, and the map of `added`; unknown names in it come from a newer client and are ignored.

        Raises:
            InvalidParameter: an illegal name, or a value out of range.
            TypeError, ValueError: the value has another form; `HeartbeatData.from_wire` turns that into
                `InvalidParameter`.
        """
        group, consume_type, model, consume_from, strategy, session_timeout_s, timestamp_ms, created_ms, topics = wire
        check_group(group)
        if len(topics) > MAX_SUBSCRIPTIONS_PER_MEMBER:
            check_subscriptions(group, [topic for topic, _, _ in topics])
        if not 0.1 <= float(session_timeout_s) <= 3600:
            raise InvalidParameter(f"session timeout of {group!r} must be 0.1 to 3600 s, got {session_timeout_s!r}")
        if len(strategy) > MAX_NAME_CHARS:
            raise InvalidParameter(
                f"the strategy of group {group!r} has a name of {len(strategy)} characters, more than {MAX_NAME_CHARS}"
            )
        _check_distinct("topic", [topic for topic, _, _ in topics])
        by_sql = frozenset(added.get("sql", ()))
        subscriptions = [
            make_subscription(
                topic, Sql(expression) if topic in by_sql else expression, _check_number("version", version)
            )
            for topic, expression, version in topics
        ]
        return cls(
            group=check_group(group),
            consume_type=ConsumeType(consume_type),
            model=MessageModel(model),
            consume_from=ConsumeFrom(consume_from),
            strategy=str(strategy),
            session_timeout_s=float(session_timeout_s),
            consume_timestamp_ms=_check_number("consume_timestamp_ms", timestamp_ms),
            group_created_ms=_check_number("group_created_ms", created_ms),
            subscriptions=tuple(sorted(subscriptions, key=lambda subscription: subscription.topic)),
            suspended=added.get("suspended") is True,
            leaseless=added.get("leaseless") is True,
            ordered=added.get("ordered") is True,
            rejoin_within_s=_check_rejoin(added.get("rejoin_within_s", 0.0)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData:
    """All groups of one client instance in one message.

    Attributes:
        cause: id of the event that led to this heartbeat; the notifications that follow carry it too.
        run_id: drawn by the client instance when it starts; `epoch` on the wire. A heartbeat with the same run id on
            a new connection is from a client that has reconnected. Another run id under the same client id means
            another process, which is refused while the first one lives. "" matches any run id.
        checkers: the producer groups for which this client answers checks of transactions.
    """

    client_id: str
    consumers: tuple[ConsumerData, ...]
    producer_groups: tuple[str, ...] = ()
    cause: str = ""
    run_id: str = ""
    checkers: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Form for a frame's body."""
        return {
            "client_id": self.client_id,
            "epoch": self.run_id,
            "cause": self.cause,
            "producers": list(self.producer_groups),
            "checkers": list(self.checkers),
            "consumers": [consumer.to_wire() for consumer in self.consumers],
            "added": {each.group: added for each in self.consumers if (added := each.added())},
        }

    @classmethod
    def from_wire(cls, wire: Any) -> HeartbeatData:
        """Read the form of a frame's body.

        Raises:
            InvalidParameter: a part is missing, of the wrong type, or has an illegal name or value.
        """
        try:
            added = wire.get("added", {})
            consumers = tuple(
                ConsumerData.from_wire(data, added.get(data[0], {}))
                for data in _up_to_the_limit("consumers", wire["consumers"])
            )
            _check_distinct("group", [consumer.group for consumer in consumers])
            return cls(
                client_id=check_id("client id", wire["client_id"]),
                run_id=check_id("epoch", wire["epoch"]) if wire.get("epoch") else "",
                cause=str(wire.get("cause", ""))[:MAX_FIELD_CHARS],
                producer_groups=tuple(check_group(group) for group in _up_to_the_limit("producers", wire["producers"])),
                consumers=consumers,
                checkers=tuple(check_group(group) for group in _up_to_the_limit("checkers", wire.get("checkers", ()))),
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidParameter(f"the heartbeat body is malformed: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class GroupView:
    """The member list of a group as one broker knows it at one group version; the input of every member's allocation.

    A broker sends it whole (`to_wire`), or as its difference from an older version (`difference`, `changed`).

    Attributes:
        version: grows with every change; a client that already has this version gets `unchanged`.
        members: client id -> topics it subscribes to, sorted by client id.
        copies: client id -> number of members with it, where that is more than one (`Quirk.DUPLICATE_MEMBERS`).
    """

    group: str
    version: int
    members: dict[str, tuple[str, ...]]
    copies: dict[str, int] = field(default_factory=dict)
    _members_of: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _topics: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def to_wire(self) -> list[Any]:
        """Form for a frame's body, encoded once per version: members with the same topics are grouped.

        Usually all members form one such group, and each of them reads the whole list after every change.
        """
        ids_of: dict[tuple[str, ...], list[str]] = {}
        for client_id, topics in self.members.items():
            ids_of.setdefault(topics, []).extend([client_id] * self.copies.get(client_id, 1))
        return [self.version, [[list(topics), ids] for topics, ids in ids_of.items()]]

    @classmethod
    def from_wire(cls, group: str, wire: Any) -> GroupView:
        """Read the form of a frame's body; a broker is trusted to send a well-formed one."""
        version, rows = wire
        topics_of: dict[str, tuple[str, ...]] = {}
        for topics, ids in rows:
            topics_of |= dict.fromkeys(ids, tuple(topics))
        members = topics_of if len(rows) == 1 else dict(sorted(topics_of.items()))
        listed = sum(len(ids) for _, ids in rows)
        counts = Counter(cid for _, ids in rows for cid in ids) if listed > len(members) else {}
        copies = {cid: count for cid, count in counts.items() if count > 1}
        return cls(group=group, version=version, members=members, copies=copies)

    def difference(self, client_ids: Iterable[str]) -> list[Any]:
        """Form for a frame's body of these members as they are now, for a member that knows an older version.

        It has the number of all members as a check, then the members as in `to_wire`, then those that have left.
        """
        rows: dict[tuple[str, ...], list[str]] = {}
        gone_ids: list[str] = []
        for client_id in client_ids:
            topics = self.members.get(client_id)
            if topics is None:
                gone_ids.append(client_id)
            else:
                rows.setdefault(topics, []).append(client_id)
        return [self.version, len(self.members), [[list(topics), ids] for topics, ids in rows.items()], gone_ids]

    def changed(self, wire: Any) -> GroupView | None:
        """This list with a difference applied; None if the result differs from the broker's list."""
        version, n, rows, gone_ids = wire
        members = dict(self.members)
        for client_id in gone_ids:
            members.pop(client_id, None)
        new = {client_id: tuple(topics) for topics, ids in rows for client_id in ids}
        is_sorted = members.keys() >= new.keys()
        members |= new
        if len(members) != n or self.copies:
            return None
        return replace(self, version=version, members=members if is_sorted else dict(sorted(members.items())))

    def members_of(self, topic: str) -> list[str]:
        """Return the sorted client ids of the members that subscribe to the topic.

        RocketMQ lists the whole group, so that a member without the topic is assigned queues that it does not read.
        """
        # Computed once for each topic: a view stays the same over many passes, and each pass of a large group needs it.
        members = self._members_of.get(topic)
        if members is None:
            members = [client_id for client_id, topics in self.members.items() if topic in topics]
            if self.copies:
                members = [client_id for client_id in members for _ in range(self.copies.get(client_id, 1))]
            self._members_of[topic] = members
        return members.copy()

    def topics(self) -> frozenset[str]:
        """Return the topics to which any member subscribes."""
        if not self._topics:  # as above
            self._topics.update(*self.members.values())
        return frozenset(self._topics)
