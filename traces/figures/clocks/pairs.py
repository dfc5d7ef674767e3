"""Pairs of events on two nodes, a reason and its effect, so the first happened before the second. Pure.

    b  LOCK_GRANTED q0 to c1, token 7         c1 QUEUE_ACQUIRED q0, token 7
    c1 QUEUE_ACQUIRED q0, token 7             b  OFFSET_COMMITTED q0 by c1, while it has that lease
    c1 QUEUE_DROPPED q0, token 7              b  QUEUE_RELEASED q0, token 7
    c1 REBALANCE_BEGIN of cause X             b  LOCK_GRANTED or LOCK_REFUSED to c1 with cause X
    b  NOTIFY_SENT of version 5, cause X      c1 NOTIFY_RECEIVED of version 5, cause X
    c1 the event with the id X                any node: its first event with cause X
    c1 QUEUE_ACQUIRED q0, for the first time  the first line of a ledger with a message of q0 for c1
    that line                                 the first MESSAGES_HANDED_OUT of c1 about q0

Conditions that the history check judges are not used as pairs, for instance that a message is processed before it is
committed: a bug would look like a wrong clock.

Events may come in any order. The number of events that wait for their counterpart is bounded; the oldest are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from model.events import Event, EventKind
from model.limits import MAX_CLOCK_PAIRS

Key = tuple[object, ...]
MESSAGE_DISPATCHED = "MESSAGE_DISPATCHED"
"""The kind of lines of a ledger (`traces/check/ledger.py`) that give pairs."""


class Point(NamedTuple):
    """An event: the number of its clock, its sequence number there, and its time."""

    clock: int
    seq: int
    t_ms: float


class Pair(NamedTuple):
    """`effect` happened after `reason`."""

    reason: Point
    effect: Point


@dataclass(slots=True)
class _Reason:
    """Events with one key: the reason, and the first effect on each other clock."""

    reason: Point | None = None
    node: str = ""
    effects: dict[int, Point] = field(default_factory=dict)
    is_ambiguous: bool = False  # two processes sent the reason, so an effect may belong to either

    def add_reason(self, event: Event, point: Point) -> None:
        old_reason = self.reason
        if old_reason is None:
            self.reason, self.node = point, event.node
        elif point.clock != old_reason.clock and not (event.node == event.broker == self.node):
            self.is_ambiguous = True  # only brokers number their runs in the order of time
        elif point.seq == old_reason.seq:
            self.is_ambiguous = self.is_ambiguous or point.t_ms != old_reason.t_ms
        elif point.seq < old_reason.seq:
            self.reason = point

    def add_effect(self, point: Point) -> None:
        first = self.effects.get(point.clock)
        if first is None or point.seq < first.seq:
            self.effects[point.clock] = point

    def pairs(self) -> Iterator[Pair]:
        if self.reason is not None and not self.is_ambiguous:
            for clock, effect in self.effects.items():
                if clock != self.reason.clock:
                    yield Pair(self.reason, effect)


class PairFinder:
    """Reads the events of all nodes, and collects their pairs."""

    def __init__(self) -> None:
        self._open: dict[Key, _Reason] = {}
        self._pairs: list[Pair] = []
        self._granted: dict[Key, Event] = {}  # queue of a group -> its newest grant

    def read_line(self, line: Event, point: Point) -> None:
        """Read a line of a ledger."""
        if line.queue_id < 0:
            return
        queue = _queue(line)
        if line.kind == MESSAGE_DISPATCHED:
            self._effect(("given", line.client, *queue), point)
            self._reason(("reported", line.client, *queue), line, point)

    def read(self, event: Event, clock: int) -> None:
        """Read an event of a clock."""
        point = Point(clock, event.seq, event.t_ms)
        if event.cause == event.id:
            self._reason(("cause", event.cause), event, point)
        elif event.cause:
            self._effect(("cause", event.cause), point)
        kind = event.kind
        if kind == EventKind.LOCK_GRANTED:
            self._reason(_lease("granted", event), event, point)
            self._effect(("pass", event.client, event.cause), point)
            self._granted[_queue(event)] = event
        elif kind == EventKind.OFFSET_COMMITTED:
            grant = self._granted.get(_queue(event))
            if grant is not None and grant.client == event.client and grant.seq < event.seq:
                self._effect(_lease("owned", grant), point)
        elif kind == EventKind.MESSAGES_HANDED_OUT:
            self._effect(("reported", event.client, *_queue(event)), point)
        elif kind == EventKind.LOCK_REFUSED:
            self._effect(("pass", event.client, event.cause), point)
        elif kind == EventKind.QUEUE_ACQUIRED:
            if event.version >= 0:
                self._effect(_lease("granted", event), point)
                self._reason(_lease("owned", event), event, point)
                self._reason(("given", event.client, *_queue(event)), event, point)
        elif kind == EventKind.QUEUE_DROPPED:
            if event.version >= 0:
                self._reason(_lease("dropped", event), event, point)
        elif kind == EventKind.QUEUE_RELEASED:
            self._effect(_lease("dropped", event), point)
        elif kind == EventKind.REBALANCE_BEGIN:
            self._reason(("pass", event.client, event.cause), event, point)
        elif kind == EventKind.NOTIFY_SENT:
            self._reason(("notified", event.group, event.version, event.cause), event, point)
        elif kind == EventKind.NOTIFY_RECEIVED:
            self._effect(("notified", event.group, event.version, event.cause), point)

    def _of(self, key: Key) -> _Reason:
        reason = self._open.get(key)
        if reason is None:
            reason = self._open[key] = _Reason()
            if len(self._open) > MAX_CLOCK_PAIRS:
                self._close(next(iter(self._open)))
        return reason

    def _reason(self, key: Key, event: Event, point: Point) -> None:
        self._of(key).add_reason(event, point)

    def _effect(self, key: Key, point: Point) -> None:
        self._of(key).add_effect(point)

    def _close(self, key: Key) -> None:
        self._pairs += self._open.pop(key).pairs()
        if len(self._pairs) > 2 * MAX_CLOCK_PAIRS:
            self._pairs = _tightest(self._pairs)

    def finish(self) -> list[Pair]:
        """Return all pairs; call it once."""
        for key in list(self._open):
            self._close(key)
        return self._pairs


def _queue(event: Event) -> Key:
    return (event.group, event.topic, event.broker, event.queue_id)


def _lease(kind: str, event: Event) -> Key:
    return (kind, event.group, event.topic, event.broker, event.queue_id, event.client, event.version)


def _tightest(pairs: list[Pair]) -> list[Pair]:
    """Keep, from each two consecutive pairs of the same clocks, the pair whose times are closer."""
    tightest: dict[tuple[int, int], Pair] = {}
    kept: list[Pair] = []
    for pair in pairs:
        clocks = (pair.reason.clock, pair.effect.clock)
        other = tightest.pop(clocks, None)
        if other is None:
            tightest[clocks] = pair
        else:
            kept.append(min(pair, other, key=lambda each: each.effect.t_ms - each.reason.t_ms))
    return kept + list(tightest.values())
