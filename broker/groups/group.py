"""One consumer group as a broker knows it: its members, its version, and their heartbeat data. Pure.

RocketMQ: ConsumerGroupInfo, ClientChannelInfo. What changes them is `broker/groups/table.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from model.group_agreement import SettingsTally
from model.heartbeat import ConsumerData, GroupView
from model.subscription import SubscriptionData

NEVER = float("inf")
RESTORED = -1
"""Connection key of a member that an earlier run of the broker knew and that has not come back yet."""


@dataclass(slots=True)
class Member:
    """One client in one group. RocketMQ: ClientChannelInfo.

    Attributes:
        connection: key of the connection that its last heartbeat came over.
        data: that heartbeat's.
        expires_at: loop time in seconds; moved by every heartbeat and every pull under a lease.
        gone_at: when the grace since its connection closed ends; NEVER while it is connected.
        epoch: run id of the client, "" if not known; see `HeartbeatData`.
        rival: run id of the last other process that sent a heartbeat with its client id, "" if none did.
        warning: about that process, for the answers to its heartbeats.
    """

    client_id: str
    connection: int
    data: ConsumerData
    subscriptions: dict[str, SubscriptionData]
    expires_at: float
    gone_at: float = NEVER
    epoch: str = ""
    rival: str = ""
    warning: str = ""

    @property
    def leaves_at(self) -> float:
        """When it is removed unless a heartbeat or a pull arrives, loop time in seconds."""
        return min(self.expires_at, self.gone_at)

    @property
    def connected(self) -> bool:
        """Whether its connection is open, as far as this side can tell."""
        return self.connection != RESTORED and self.gone_at == NEVER


@dataclass(slots=True)
class ConsumerGroupInfo:
    """One group.

    Attributes:
        version: grows with every change; starts at the wall clock in milliseconds, so that it also grows over a restart
            of the broker.
        created_ms: when the group was created on any broker, wall clock in milliseconds.
        members: client id -> member. Under `Quirk.DUPLICATE_MEMBERS` a second one with an id has its own key.
        cause: id of the root trigger of the newest change.
        notify_at: loop time in seconds of the notification that is owed, or NEVER.
        quiet_until: end of the current window, in which no second notification goes out.
        settings: what the members say that all have to say the same of.
        split: the disagreement that was reported last; `disagreement` is its text, "" while they agree.
        shared_topics: the one subscription table of the group under `Quirk.GROUP_WIDE_SUBSCRIPTION`, else None.
        encoded_view: the view as it was sent last: thousands of members ask for it, so it is encoded once a version.
        encoded_version: of which version that is.
    """

    group: str
    version: int
    created_ms: int
    members: dict[str, Member] = field(default_factory=dict)
    cause: str = ""
    notify_at: float = NEVER
    quiet_until: float = 0.0
    settings: SettingsTally = field(default_factory=SettingsTally)
    split: tuple[tuple[str, tuple[str, ...]], ...] = ()
    disagreement: str = ""
    shared_topics: tuple[str, ...] | None = None
    encoded_view: bytes = b""
    encoded_version: int = -1

    def view(self) -> GroupView:
        """The sorted member list at this version."""
        members: dict[str, tuple[str, ...]] = {}
        copies: dict[str, int] = {}
        everything = {topic for member in self.members.values() for topic in member.subscriptions}
        for key in sorted(self.members):
            member = self.members[key]
            # RocketMQ lists every member of the group, for each topic that anybody asks about.
            topics = member.subscriptions if self.shared_topics is None else everything
            members[member.client_id] = tuple(sorted(topics))
            copies[member.client_id] = copies.get(member.client_id, 0) + 1
        more_than_one = {client_id: count for client_id, count in copies.items() if count > 1}
        return GroupView(group=self.group, version=self.version, members=members, copies=more_than_one)
