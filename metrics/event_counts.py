"""Counters from the events of one node. Pure.

    counts = EventCounts(then=trace_file.write)       # an event sink that forwards each event
    ...
    for family, samples in counts.broker_metrics(): ...

Each event is counted when it is emitted, so a report of the trace shows the same numbers. Counters begin at zero with
the process, as usual; `owned_before` sets the last owners of queues that were leased before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from metrics.families import (
    DEAD_LETTERS,
    EVENTS,
    HANDED_OUT,
    LEASES_EXPIRED,
    LEASES_GRANTED,
    LEASES_REFUSED,
    LISTENER_TIMEOUTS,
    MAX_GROUP_LABELS,
    MEMBERS_JOINED,
    MEMBERS_LEFT,
    MOVES,
    NOTIFICATIONS,
    OTHER_GROUPS,
    PASSES,
    REDELIVERED,
    WAITED,
    Family,
    Samples,
)
from model.event_log import EventSink
from model.events import Event, EventKind
from model.names import is_retry_topic

_BROKER = (
    *(MEMBERS_JOINED, MEMBERS_LEFT, NOTIFICATIONS, LEASES_GRANTED, LEASES_REFUSED, LEASES_EXPIRED, MOVES),
    *(REDELIVERED, DEAD_LETTERS),
)
_CLIENT = (HANDED_OUT, WAITED, LISTENER_TIMEOUTS, PASSES)


class EventCounts:
    """An event sink that counts events; `then` receives every event afterwards."""

    def __init__(self, then: EventSink | None = None) -> None:
        self._then = then
        self._kinds: Counter[str] = Counter()
        self._sums: dict[Family, Counter[tuple[str, ...]]] = {family: Counter() for family in (*_BROKER, *_CLIENT)}
        self._groups: set[str] = set()
        self._last_owners: dict[tuple[str, str, int], str] = {}
        self._owned: dict[tuple[str, str, str, int], str] = {}  # (group, topic, broker, queue) -> client

    def __call__(self, event: Event) -> None:
        """Count an event, and pass it on to `then`."""
        self._kinds[event.kind] += 1
        step = _STEPS.get(event.kind)
        if step is not None:
            step(self, event)
        if self._then is not None:
            self._then(event)

    def owned_before(self, group: str, topic: str, queue_id: int, owner: str) -> None:
        """Record a lease of an earlier run of the broker, so that its confirmation does not count as a move."""
        self._last_owners.setdefault((group, topic, queue_id), owner)

    def _add(self, family: Family, group: str, n: float = 1, *labels: str) -> None:
        if group not in self._groups:
            if len(self._groups) >= MAX_GROUP_LABELS:
                group = OTHER_GROUPS
            else:
                self._groups.add(group)
        self._sums[family][group, *labels] += n  # type: ignore[assignment]  # a Counter counts floats as well

    def _granted(self, event: Event) -> None:
        self._add(LEASES_GRANTED, event.group)
        key = event.group, event.topic, event.queue_id
        if self._last_owners.get(key) != event.client and not is_retry_topic(event.topic):
            self._last_owners[key] = event.client
            self._add(MOVES, event.group)

    def _handed_out(self, event: Event) -> None:
        self._add(HANDED_OUT, event.group, event.n)
        waited = dict(part.split("=", 1) for part in event.detail.split() if "=" in part).get("waited_ms")
        if waited is not None:
            self._add(WAITED, event.group, float(waited) * event.n / 1000)

    def _passed(self, event: Event) -> None:
        self._add(PASSES, event.group, 1, event.detail.partition(" ")[0])

    def _acquired(self, event: Event) -> None:
        self._owned[event.group, event.topic, event.broker, event.queue_id] = event.client

    def _dropped(self, event: Event) -> None:
        self._owned.pop((event.group, event.topic, event.broker, event.queue_id), None)

    def owned(self) -> Counter[str]:
        """Return the number of queues that the clients of this process own, by group."""
        return Counter(group for group, *_ in self._owned)

    def broker_metrics(self) -> Iterator[Samples]:
        """Yield the metrics from the events of a broker."""
        return self._metrics(_BROKER)

    def client_metrics(self) -> Iterator[Samples]:
        """Yield the metrics from the events of clients."""
        return self._metrics(_CLIENT)

    def _metrics(self, families: tuple[Family, ...]) -> Iterator[Samples]:
        yield EVENTS, [((kind,), n) for kind, n in sorted(self._kinds.items())]
        for family in families:
            yield family, sorted(self._sums[family].items())


def _by_one(family: Family) -> Callable[[EventCounts, Event], None]:
    return lambda counts, event: counts._add(family, event.group)


def _by_n(family: Family) -> Callable[[EventCounts, Event], None]:
    return lambda counts, event: counts._add(family, event.group, max(0, event.n))


_STEPS: dict[str, Callable[[EventCounts, Event], None]] = {
    EventKind.MEMBER_JOIN: _by_one(MEMBERS_JOINED),
    EventKind.MEMBER_LEAVE: lambda counts, event: counts._add(MEMBERS_LEFT, event.group, 1, event.detail),
    EventKind.NOTIFY_SENT: _by_n(NOTIFICATIONS),
    EventKind.LOCK_GRANTED: EventCounts._granted,
    EventKind.LOCK_REFUSED: _by_one(LEASES_REFUSED),
    EventKind.LOCK_EXPIRED: _by_one(LEASES_EXPIRED),
    EventKind.MESSAGES_REDELIVERED: _by_n(REDELIVERED),
    EventKind.DEAD_LETTER: _by_n(DEAD_LETTERS),
    EventKind.MESSAGES_HANDED_OUT: EventCounts._handed_out,
    EventKind.LISTENER_TIMED_OUT: _by_n(LISTENER_TIMEOUTS),
    EventKind.REBALANCE_END: EventCounts._passed,
    EventKind.QUEUE_ACQUIRED: EventCounts._acquired,
    EventKind.QUEUE_DROPPED: EventCounts._dropped,
}
