"""Changes of the world: the events that begin rebalances, and which of their causes are the same change. Pure.

Several nodes may report one change, each with its own cause: both brokers of an expanded topic, both brokers that miss
a member, every client that lost its connection to a broker. The reports are one change if kind and subject are the
same, no node reports twice, and at most the time of `SAME_CHANGE_MS` lies between them. An event that is only a part of
an earlier change of the same member (`_PART_OF`) belongs to that change.

    broker-a/7  ROUTE_CHANGED orders     a change
    broker-b/3  ROUTE_CHANGED orders     the same change, reported by another node
    broker-a/9  ROUTE_CHANGED orders     another change: broker-a has reported the first
"""

from __future__ import annotations

from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.limits import MAX_KNOWN_CHANGES

SAME_CHANGE_MS = {
    # Twice the interval of route polls and of heartbeats: within this time every node has noticed.
    EventKind.ROUTE_CHANGED: 60_000.0,
    EventKind.MEMBER_LEAVE: 60_000.0,
    EventKind.MEMBER_JOIN: 60_000.0,
    EventKind.SUBSCRIPTION_CHANGE: 60_000.0,
    # Every client notices a closed connection at once, and a member notices the end of all its leases.
    EventKind.BROKER_DOWN: 5_000.0,
    EventKind.BROKER_UP: 5_000.0,
    EventKind.QUEUE_DROPPED: 5_000.0,
    EventKind.CLIENT_STOP: 60_000.0,
}
"""Kinds of changes that several events may report, and the time within which they do."""

_PART_OF = {
    # Before a stopping member unregisters, it may drop its subscriptions, or its connection may close.
    EventKind.SUBSCRIPTION_CHANGE: EventKind.CLIENT_STOP,
    EventKind.MEMBER_LEAVE: EventKind.CLIENT_STOP,
    # A removed member notices later that it has lost its queues.
    EventKind.QUEUE_DROPPED: EventKind.MEMBER_LEAVE,
}
"""Kind of event -> kind of an earlier change of the same member to which it belongs."""


@dataclass(slots=True)
class Change:
    """One change, as its first event describes it; see `Rebalance`. Unknown (kind "") until that event comes."""

    cause: str
    t_ms: float
    kind: str = ""
    detail: str = ""
    client: str = ""
    broker: str = ""
    reported_by: dict[str, None] = field(default_factory=dict)

    def describe(self, event: Event) -> None:
        """Set kind, detail, client and broker from an event."""
        self.kind, self.detail, self.client, self.broker = event.kind, event.detail, event.client, event.broker


class Changes:
    """The latest changes, by all of their causes; beyond `MAX_KNOWN_CHANGES`, the oldest are removed."""

    def __init__(self) -> None:
        self._by_cause: dict[str, Change] = {}
        self._latest: dict[tuple[str, ...], Change] = {}  # kind, group and subject -> the latest change

    def of(self, event: Event) -> Change:
        """Return the change that an event belongs to; an unknown cause begins a new change."""
        change = self._by_cause.get(event.cause)
        if change is None:
            change = self._same(event) or Change(event.cause, event.t_ms)
            self._by_cause[event.cause] = change
            if len(self._by_cause) > MAX_KNOWN_CHANGES:
                del self._by_cause[next(iter(self._by_cause))]
        if not change.kind and event.id == change.cause:
            change.describe(event)
            change.t_ms = min(change.t_ms, event.t_ms)
        return change

    def _same(self, event: Event) -> Change | None:
        """Return the change that an event reports, an earlier or a new one; None for kinds that are reported once."""
        kind = EventKind(event.kind)
        if kind is EventKind.CLIENT_START:
            self._latest.pop((EventKind.CLIENT_STOP, event.group, event.client), None)
        if kind not in SAME_CHANGE_MS or event.id != event.cause:
            return None
        subject = _subject(event)
        change = self._recent(_PART_OF.get(kind), event, subject)
        if change is None:
            change = self._recent(kind, event, subject)
            if change is not None and event.node in change.reported_by and kind is not EventKind.QUEUE_DROPPED:
                change = None  # its node has reported that one, so this is another change
        if change is None:
            change = Change(event.cause, event.t_ms)
            change.describe(event)
            self._latest.pop((kind, event.group, subject), None)
            self._latest[kind, event.group, subject] = change
            if len(self._latest) > MAX_KNOWN_CHANGES:
                del self._latest[next(iter(self._latest))]
        change.reported_by[event.node] = None
        return change

    def _recent(self, kind: EventKind | None, event: Event, subject: str) -> Change | None:
        if kind is None:
            return None
        change = self._latest.get((kind, event.group, subject))
        return None if change is None or event.t_ms - change.t_ms > SAME_CHANGE_MS[kind] else change


def _subject(event: Event) -> str:
    if event.kind == EventKind.ROUTE_CHANGED:
        return event.topic
    if event.kind in (EventKind.BROKER_DOWN, EventKind.BROKER_UP):
        return event.broker or event.detail
    return event.client
