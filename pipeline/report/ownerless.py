"""Groups of a report without owners of queues, for instance groups that pop: members, redeliveries, dead letters.

Members that pop share the messages of every queue, so there are no ownerships, and no figures from them. Events do not
report each popped or acknowledged message either: a broker reports only the messages that it redelivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from model.events import Event, EventKind
from traces.figures.members import GroupMembers
from traces.figures.records import order_of

_OF_MEMBERS = frozenset(
    kind.value
    for kind in (
        EventKind.CLIENT_START,
        EventKind.CLIENT_STOP,
        EventKind.MEMBER_JOIN,
        EventKind.MEMBER_LEAVE,
        EventKind.SUBSCRIPTION_CHANGE,
    )
)
_OF_CONSUMERS = frozenset(
    kind.value for kind in (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE, EventKind.MESSAGES_REDELIVERED)
)
"""Kinds of events that only consumer groups have; CLIENT_START also comes from producers."""
KINDS = _OF_MEMBERS | _OF_CONSUMERS | {EventKind.DEAD_LETTER.value}
MOST_CHANGES = 3_000
"""Maximum number of points of the number of members over time; the last ones are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerlessGroup:
    """A group that owned no queue in the trace; times are milliseconds since the trace began.

    Attributes:
        members_joined, members_left, members: as in `traces.figures.records.GroupTotals`.
        redelivered: messages that were redelivered because they were not acknowledged in time.
        dead_letters: messages that were sent to the DLQ after their last attempt.
        queues: redeliveries per queue and receiving member: topic, broker, queue_id, client, `redelivered`, `batches`.
        members_over_time: `t_ms` and `members`, at each change.
    """

    group: str
    members_joined: int
    members_left: int
    members: int
    redelivered: int
    dead_letters: int
    queues: list[dict[str, Any]]
    members_over_time: list[dict[str, Any]]

    @property
    def surely_pops(self) -> bool:
        """Whether the group has an event that only occurs in groups that pop."""
        return self.redelivered > 0


@dataclass(slots=True)
class _Found:
    of_members: list[Event] = field(default_factory=list)
    is_consumer: bool = False
    redelivered: Counter[tuple[str, str, int, str]] = field(default_factory=Counter)
    batches: Counter[tuple[str, str, int, str]] = field(default_factory=Counter)
    dead_letters: int = 0

    def add(self, event: Event) -> None:
        self.is_consumer = self.is_consumer or event.kind in _OF_CONSUMERS
        if event.kind in _OF_MEMBERS:
            self.of_members.append(event)
        elif event.kind == EventKind.DEAD_LETTER:
            self.dead_letters += event.n
        else:
            queue_and_client = (event.topic, event.broker, event.queue_id, event.client)
            self.redelivered[queue_and_client] += event.n
            self.batches[queue_and_client] += 1


def find_ownerless(events: Iterable[Event], owners: frozenset[str], started_ms: float) -> list[OwnerlessGroup]:
    """Return the consumer groups that are not in `owners`, from events of `KINDS` in any order."""
    by_group: dict[str, _Found] = {}
    for event in events:
        if event.group and event.group not in owners:
            by_group.setdefault(event.group, _Found()).add(event)
    return [_made(group, figures, started_ms) for group, figures in sorted(by_group.items()) if figures.is_consumer]


def _made(group: str, figures: _Found, started_ms: float) -> OwnerlessGroup:
    members = GroupMembers()
    counts: list[dict[str, Any]] = []
    for event in sorted(figures.of_members, key=order_of):
        n_before = len(members)
        members.process(event)
        if len(members) != n_before:
            counts.append({"t_ms": event.t_ms - started_ms, "members": len(members)})
    names = ("topic", "broker", "queue_id", "client")
    return OwnerlessGroup(
        group=group,
        members_joined=members.joined,
        members_left=members.left,
        members=len(members),
        redelivered=figures.redelivered.total(),
        dead_letters=figures.dead_letters,
        queues=[
            {
                **dict(zip(names, queue_and_client, strict=True)),
                "redelivered": n,
                "batches": figures.batches[queue_and_client],
            }
            for queue_and_client, n in sorted(figures.redelivered.items())
        ],
        members_over_time=counts[-MOST_CHANGES:],
    )
