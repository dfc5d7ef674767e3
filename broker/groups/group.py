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
    """One client in one group. RocketMQ: ClientChannelInfo."""

    client_id: str
    connection: int  # key of the connection that its last heartbeat came over
    data: ConsumerData  # that heartbeat's
    subscriptions: dict[str, SubscriptionData]
    expires_at: float  # loop time in seconds; moved by every heartbeat and every pull under a lease
    gone_at: float = NEVER  # end of the grace period since its connection closed; NEVER while it is connected
    epoch: str = ""  # run id of the client, "" if not known; see `HeartbeatData`
    rival: str = ""  # run id of the last other process that sent a heartbeat with its client id, "" if none did
    warning: str = ""  # about that process, for the answers to its heartbeats

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
    """One group."""

    group: str
    # Grows with every change; starts at the wall clock in milliseconds, so that it also grows over a restart of the
    # broker.
    version: int
    created_ms: int  # when the group was created on any broker, wall clock in milliseconds
    # Client id -> member. Under `Quirk.DUPLICATE_MEMBERS` a second one with an id has its own key.
    members: dict[str, Member] = field(default_factory=dict)
    cause: str = ""  # id of the root trigger of the newest change
    notify_at: float = NEVER  # loop time in seconds of the notification that is owed, or NEVER
    quiet_until: float = 0.0  # end of the current window, in which no second notification goes out
    # What the members say that all have to say the same of.
    settings: SettingsTally = field(default_factory=SettingsTally)
    # The disagreement that was reported last; `disagreement` is its text, "" while they agree.
    split: tuple[tuple[str, tuple[str, ...]], ...] = ()
    disagreement: str = ""
    # The one subscription table of the group under `Quirk.GROUP_WIDE_SUBSCRIPTION`, else None.
    shared_topics: tuple[str, ...] | None = None
    # The view as it was sent last: thousands of members ask for it, so it is encoded once a version.
    encoded_view: bytes = b""
    encoded_version: int = -1  # of which version that is

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
