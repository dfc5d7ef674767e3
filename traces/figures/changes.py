"""Changes of the world: the events that begin rebalances, and which of their causes are one change. Pure.

Several nodes may tell of one change, each with a cause of its own: both brokers of a topic that is expanded, both
brokers that miss a member, every client that lost its connection to a broker. They are one change if the kind and the
subject are the same, no node tells twice, and not more than the time of `SAME_CHANGE_MS` lies between. What is only a
part of an earlier change of the same member (`_PART_OF`) belongs to that one.

    broker-a/7  ROUTE_CHANGED orders     a change
    broker-b/3  ROUTE_CHANGED orders     the same one: another node tells
    broker-a/9  ROUTE_CHANGED orders     another one: broker-a has told of the first
"""

from __future__ import annotations

from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.limits import MAX_KNOWN_CHANGES

SAME_CHANGE_MS = {
    # Twice the interval in which clients poll routes, and beat hearts: by then every node has noticed.
    EventKind.ROUTE_CHANGED: 60_000.0,
    EventKind.MEMBER_LEAVE: 60_000.0,
    EventKind.MEMBER_JOIN: 60_000.0,
    EventKind.SUBSCRIPTION_CHANGE: 60_000.0,
    # Every client notices a closed connection at once, and a member the end of all its leases.
    EventKind.BROKER_DOWN: 5_000.0,
    EventKind.BROKER_UP: 5_000.0,
    EventKind.QUEUE_DROPPED: 5_000.0,
    EventKind.CLIENT_STOP: 60_000.0,
}
"""Kinds of changes of which more may be told, and the time for which that is so."""

_PART_OF = {
    # A member that stops may be heard of without subscriptions, or by its connection, before it unregisters.
    EventKind.SUBSCRIPTION_CHANGE: EventKind.CLIENT_STOP,
    EventKind.MEMBER_LEAVE: EventKind.CLIENT_STOP,
    # One that was removed learns later that it has lost its queues.
    EventKind.QUEUE_DROPPED: EventKind.MEMBER_LEAVE,
}
"""Kind -> kind of an earlier change of the same member that it is a part of."""


@dataclass(slots=True)
class Change:
    """One change, as the first event of it tells; see `Rebalance`. Unknown (kind "") until that event is seen."""

    cause: str
    t_ms: float
    kind: str = ""
    detail: str = ""
    client: str = ""
    broker: str = ""
    told_by: dict[str, None] = field(default_factory=dict)

    def describe(self, event: Event) -> None:
        """Take what an event tells of it."""
        self.kind, self.detail, self.client, self.broker = event.kind, event.detail, event.client, event.broker


class Changes:
    """The latest changes, by all of their causes; the oldest are forgotten beyond `MAX_KNOWN_CHANGES`."""

    def __init__(self) -> None:
        self._by_cause: dict[str, Change] = {}
        self._latest: dict[tuple[str, ...], Change] = {}  # kind, group and subject -> the change told of last

    def of(self, event: Event) -> Change:
        """The change that an event belongs to; new if its cause is."""
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
        """The change of which an event tells once more, or None; what is new is looked for from now on."""
        kind = EventKind(event.kind)
        if kind is EventKind.CLIENT_START:
            self._latest.pop((EventKind.CLIENT_STOP, event.group, event.client), None)
        if kind not in SAME_CHANGE_MS or event.id != event.cause:
            return None
        subject = _subject(event)
        change = self._recent(_PART_OF.get(kind), event, subject)
        if change is None:
            change = self._recent(kind, event, subject)
            if change is not None and event.node in change.told_by and kind is not EventKind.QUEUE_DROPPED:
                change = None  # it tells of another one
        if change is None:
            change = Change(event.cause, event.t_ms)
            change.describe(event)
            self._latest.pop((kind, event.group, subject), None)
            self._latest[kind, event.group, subject] = change
            if len(self._latest) > MAX_KNOWN_CHANGES:
                del self._latest[next(iter(self._latest))]
        change.told_by[event.node] = None
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
