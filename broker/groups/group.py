"""One consumer group as a broker knows it: its members, its version, and their heartbeat data. Pure.

RocketMQ: ConsumerGroupInfo, ClientChannelInfo. `broker/groups/table.py` changes them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgpack

from model.group_agreement import SettingsTally
from model.heartbeat import ConsumerData, GroupView
from model.limits import MAX_MEMBER_CHANGES, MAX_PAUSE_S
from model.log_lines import LogLines
from model.subscription import SubscriptionData

NEVER = float("inf")
_FEW_JOINS = 8
RESTORED = -1
"""Connection key of a member that an earlier run of the broker has stored and that has not reconnected yet."""


@dataclass(slots=True)
class Member:
    """One client in one group. RocketMQ: ClientChannelInfo."""

    client_id: str
    connection: int  # key of the connection that its last heartbeat came over
    data: ConsumerData  # from its last heartbeat
    subscriptions: dict[str, SubscriptionData]
    expires_at: float  # loop time in seconds; moved by every heartbeat and every pull under a lease
    grace_ends_at: float = NEVER  # end of the grace period since its connection closed; NEVER while it is connected
    run_id: str = ""  # run id of the client, "" if not known; see `HeartbeatData`
    conflicting_run_id: str = (
        ""  # run id of the last other process that sent a heartbeat with its client id, "" if none did
    )
    warning: str = ""  # about that process, for the answers to its heartbeats
    sharer: int = 0  # number of the one whose subscriptions these are, see `remoting/overload/shares.py`
    locks: bool = False  # whether it has asked for a lock without leases, as orderly clients of RocketMQ do

    @property
    def leaves_at(self) -> float:
        """When it is removed unless a heartbeat or a pull arrives, loop time in seconds."""
        return min(self.expires_at, self.grace_ends_at)

    @property
    def connected(self) -> bool:
        """Whether its connection is open, seen from this side."""
        return self.connection != RESTORED and self.grace_ends_at == NEVER


@dataclass(slots=True)
class ConsumerGroupInfo:
    """One group."""

    group: str
    # Grows with every change; starts at the wall clock in milliseconds, so that it also grows over a restart of the
    # broker.
    version: int
    created_ms: int  # when the group was created on any broker, wall clock in milliseconds
    # Client id -> member. Under `Quirk.DUPLICATE_MEMBERS` a second one with an id has its own key.
    members: dict[str, Member] = field(default_factory=dict)
    cause: str = ""  # id of the root trigger of the newest change
    changed_at: float = -NEVER  # loop time in seconds of the newest change
    notify_at: float = NEVER  # loop time in seconds of the notification that is due, or NEVER
    group_began_at: float = -NEVER  # loop time in seconds when it got its first member
    joined_at: float = -NEVER  # when the newest member joined
    growth: int = 0  # members that joined in a row, with no other change and no pause of `MAX_PAUSE_S` between them
    longest_gap_s: float = 0.0  # between two of them
    notified_version: int = -1  # of the last notification, -1 if there was none
    window_ends_at: float = 0.0  # end of the current window, in which no second notification goes out
    # The settings that all members have to agree on.
    settings: SettingsTally = field(default_factory=SettingsTally)
    leaseless: int = 0  # members that ask for no leases, as clients of RocketMQ
    # Topics -> how many members want just these, and the bytes of all these names; see `broker/groups/capacity.py`.
    topic_sets: dict[tuple[str, ...], int] = field(default_factory=dict)
    listed_bytes: int = 0
    # The disagreement that was reported last; `disagreement` is its text, "" while they agree.
    split: tuple[tuple[str, tuple[str, ...]], ...] = ()
    disagreement: str = ""
    reports: LogLines = field(default_factory=LogLines)  # a disagreement may begin and end often
    # The one subscription table of the group under `Quirk.GROUP_WIDE_SUBSCRIPTION`, else None.
    shared_topics: tuple[str, ...] | None = None
    pending_since: float = 0.0  # loop time in seconds of the first change that `notify_at` is about
    pending_joins_only: bool = False  # whether `notify_at` is about nothing but members that joined
    # Version -> the member that it changed, for members that know an older list; see `changed_since`.
    changes: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=MAX_MEMBER_CHANGES))
    always_whole: bool = False  # under a quirk that lists members in another way there are no differences
    # The encoded answers to members that ask for the list, all of this version, by the version that they know, -1 for
    # none: thousands ask, and most know the same one.
    answers: dict[int, bytes] = field(default_factory=dict)
    sharer: int = 0  # number of the one whose member was the first, see `remoting/overload/shares.py`
    answers_version: int = -1

    def record_join(self, now: float) -> None:
        """Record the time of a join; called before the member is in `members`."""
        if not self.members:
            self.group_began_at = now
        gap_s, self.joined_at = now - self.joined_at, now
        if gap_s > MAX_PAUSE_S:
            self.growth, self.longest_gap_s = 1, 0.0
        else:
            # Not the gap behind the first one, which may have been alone for a while.
            self.growth, self.longest_gap_s = self.growth + 1, max(self.longest_gap_s, gap_s if self.growth > 1 else 0)

    @property
    def is_growing(self) -> bool:
        """Whether more than a few members have joined in a row: a quarter of the group."""
        return self.growth >= max(_FEW_JOINS, len(self.members) / 4)

    def changed_since(self, known_version: int) -> list[str] | None:
        """The members that changed after a version; None if that is not known, or is as long as the list."""
        if self.always_whole or not self.changes or not self.changes[0][0] - 1 <= known_version < self.version:
            return None
        changed: dict[str, None] = {}
        for version, client_id in reversed(self.changes):
            if version <= known_version:
                break
            if client_id:
                changed[client_id] = None
        return sorted(changed) if 2 * len(changed) <= len(self.members) else None

    def whole_list(self) -> bytes:
        """The encoded member list, see `GroupView.to_wire`."""
        return self._answer(-1, None)

    def difference_since(self, known_version: int) -> bytes | None:
        """The encoded difference from an older list, see `GroupView.difference`; None if there is none to send."""
        changed = self.changed_since(known_version)
        return None if changed is None else self._answer(known_version, changed)

    def _answer(self, known_version: int, changed: list[str] | None) -> bytes:
        if self.answers_version != self.version:
            self.answers.clear()
            self.answers_version = self.version
        if known_version not in self.answers:
            view = self.view()
            wire = view.to_wire() if changed is None else view.difference(changed)
            self.answers[known_version] = msgpack.packb(wire)
        return self.answers[known_version]

    def view(self) -> GroupView:
        """The sorted member list at this version."""
        members: dict[str, tuple[str, ...]] = {}
        copies: dict[str, int] = {}
        everything: tuple[str, ...] = ()
        if self.shared_topics is not None:
            # RocketMQ lists every member of the group, for each topic that a client asks about.
            everything = tuple(sorted({topic for member in self.members.values() for topic in member.subscriptions}))
        for key in sorted(self.members):
            member = self.members[key]
            members[member.client_id] = everything or tuple(sorted(member.subscriptions))
            copies[member.client_id] = copies.get(member.client_id, 0) + 1
        more_than_one = {client_id: count for client_id, count in copies.items() if count > 1}
        return GroupView(group=self.group, version=self.version, members=members, copies=more_than_one)


def update_subscription(member: Member, data: ConsumerData) -> tuple[bool, bool]:
    """Bring a member's subscriptions up to date; returns (topics changed, an expression changed)."""
    new = {subscription.topic: subscription for subscription in data.subscriptions}
    topics_changed = new.keys() != member.subscriptions.keys()
    expression_changed = False
    for topic, subscription in new.items():
        old = member.subscriptions.get(topic)
        if old is not None and old.version >= subscription.version:
            new[topic] = old
        elif old is not None and (old.expression, old.is_sql) != (subscription.expression, subscription.is_sql):
            expression_changed = True
    member.subscriptions = new
    return topics_changed, expression_changed
