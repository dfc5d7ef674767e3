"""Members of a group, and the topics that they want, from the events of clients and brokers. Pure.

A client becomes a member with its CLIENT_START or the first MEMBER_JOIN, and stops being one with its CLIENT_STOP, or
when every broker that knew it has removed it (MEMBER_LEAVE). Events of one side are enough: a swarm has only events of
clients, and the trace of a broker only its own.

    c1 CLIENT_START, b1 and b2 MEMBER_JOIN c1, b1 MEMBER_LEAVE c1 (expiry)    c1 is still a member, of b2
    b2 MEMBER_LEAVE c1 (expiry)                                               c1 is no longer a member
"""

from __future__ import annotations

from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.limits import MAX_STOPPED_MEMBERS


@dataclass(slots=True)
class _Member:
    brokers: dict[str, None] = field(default_factory=dict)
    topics: frozenset[str] | None = None  # None: unknown, so it may want any topic


class GroupMembers:
    """The members of one group."""

    def __init__(self) -> None:
        self.joined = 0  # how often a client became a member
        self.left = 0
        self.version = 0  # grows with every change of members or of their topics
        self._members: dict[str, _Member] = {}
        self._stopped: dict[str, None] = {}  # clients that stopped; late events about them do not make them members

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, client: object) -> bool:
        return client in self._members

    def wants(self, topic: str) -> bool:
        """Whether a member subscribes to a topic, or may do so because its topics are unknown."""
        return any(member.topics is None or topic in member.topics for member in self._members.values())

    def process(self, event: Event) -> None:
        """Process an event about a member; other events change nothing."""
        client = event.client
        match event.kind:
            case EventKind.CLIENT_START:
                self._stopped.pop(client, None)
                self._enter(client, joins=True)
            case EventKind.MEMBER_JOIN | EventKind.SUBSCRIPTION_CHANGE:
                member = self._enter(client, joins=True)
                if member is not None:
                    member.brokers[event.broker] = None
                    member.topics = frozenset(part.partition("=")[0] for part in event.detail.split(" ") if "=" in part)
                    self.version += 1
            case EventKind.QUEUE_ACQUIRED:
                if client not in self._members:
                    self._enter(client, joins=False)  # the trace begins after it joined
            case EventKind.CLIENT_STOP:
                self._stopped[client] = None
                if len(self._stopped) > MAX_STOPPED_MEMBERS:
                    del self._stopped[next(iter(self._stopped))]
                self._leave(client)
            case EventKind.MEMBER_LEAVE:
                member = self._members.get(client)
                if member is not None:
                    member.brokers.pop(event.broker, None)
                    if not member.brokers:
                        self._leave(client)

    def _enter(self, client: str, *, joins: bool) -> _Member | None:
        if client in self._stopped:
            return None
        member = self._members.get(client)
        if member is None:
            member = self._members[client] = _Member()
            self.joined += joins
            self.version += 1
        return member

    def _leave(self, client: str) -> None:
        if self._members.pop(client, None) is not None:
            self.left += 1
            self.version += 1
