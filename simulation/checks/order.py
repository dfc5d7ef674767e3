"""Checks that ordered groups process messages in order, and with one owner of a queue at a time. Pure.

A *lane* is a sequence that has to stay in order: a whole queue, or the messages of a queue with one key. A message is
*settled* when it is processed or sent to the DLQ. For each lane of each group, whatever members join, leave, crash or
are cut off:

    lease     a queue is granted only when no other member holds it
    owner     a message is dispatched by the member that holds the lease, never while another member does
    overlap   it starts only when no other message of its lane is with a listener of a live owner
    order     it starts only when every message before it is settled
    repeat    an owner repeats messages from some point on, one after the other: it leaves none out, and goes back to
              none once a later one has started
    numbers   the first processings of the messages of a key are in the order in which they were sent

A duplicate is not a violation: the first processing counts, and the others have to repeat a suffix in order. A listener
cannot be stopped from outside, so a message dispatched when the broker ended the lease of its member (session expired,
connection lost) does not hold up the next owner; one dispatched when a member *releases* a queue does.

    granted(key-group, q0, c1)   started(c1, q0, "a", 0)   started(c1, q0, "b", 1)     two lanes
    started(c1, q0, "a", 4)      overlap: 0 of lane a is with the listener
    started(c2, q0, "b", 5)      owner: c1 holds q0
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.message_queue import MessageQueue

MAX_VIOLATIONS = 20
"""One broken thing breaks more; the first are worth reading."""

_Place = tuple[str, MessageQueue]


@dataclass(slots=True)
class _CheckedLane:
    """One sequence of messages.

    Attributes:
        running: (client id, offset) of a dispatched message -> whether the next owner has to wait for it.
        last: client id -> the offset that it started last since it acquired the queue.
    """

    known: list[int] = field(default_factory=list)  # offsets that exist, ascending
    unsettled: int = 0  # index in `known` of the first that may be unsettled
    running: dict[tuple[str, int], bool] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _CheckedQueue:
    """One queue in one group: its lease holder, its lanes by key, and its settled offsets."""

    holder: str = ""
    lanes: dict[str, _CheckedLane] = field(default_factory=dict)
    settled: dict[int, None] = field(default_factory=dict)


class OrderCheck:
    """Checker of one run; `by_key` has the groups and whether their lanes are keys, else they are queues."""

    def __init__(self, by_key: Mapping[str, bool]) -> None:
        self.violations: list[str] = []  # the first `MAX_VIOLATIONS`
        self.starts = 0  # calls of listeners
        self.settled = 0  # messages that were settled, each counted once in each group
        self._by_key = dict(by_key)
        self._queues: defaultdict[_Place, _CheckedQueue] = defaultdict(_CheckedQueue)
        self._numbers: dict[tuple[str, str], int] = {}
        self._acknowledged: dict[tuple[MessageQueue, int], None] = {}

    # --- what happens ------------------------------------------------------------------------------------------------

    def watch(self, event: Event) -> None:
        """Record an event about leases or acquired queues; other groups are ignored."""
        if event.group not in self._by_key:
            return
        state = self._queues[event.group, MessageQueue(event.topic, event.broker, event.queue_id)]
        if event.kind == EventKind.LOCK_GRANTED:
            if state.holder not in ("", event.client):
                self._violated(f"lease: {event} although {state.holder} holds it")
            state.holder = event.client
        elif event.kind == EventKind.QUEUE_RELEASED:
            state.holder = ""
        elif event.kind == EventKind.LOCK_EXPIRED:
            state.holder = ""
            for lane in state.lanes.values():
                lane.running.update({each: False for each in lane.running if each[0] == event.client})
        elif event.kind == EventKind.QUEUE_ACQUIRED:
            for lane in state.lanes.values():
                lane.last.pop(event.client, None)

    def acknowledged(self, queue: MessageQueue, offset: int, key: str) -> None:
        """Record that a broker acknowledged a message: every group has to settle it."""
        self._acknowledged[queue, offset] = None
        for group in self._by_key:
            state = self._queues[group, queue]
            self._know(state, self._lane(group, state, key), offset)

    def started(self, group: str, client: str, queue: MessageQueue, offset: int, key: str) -> None:
        """Record that a listener is called with a message."""
        self.starts += 1
        state = self._queues[group, queue]
        lane = self._lane(group, state, key)
        what = f"{group}: {client} starts {queue} {offset} of key {key!r}"
        if state.holder not in ("", client):
            self._violated(f"owner: {what}, and {state.holder} holds the queue")
        for (other, running), waited_for in lane.running.items():
            if waited_for or other == client:
                self._violated(f"overlap: {what} while {running} is with {other}")
        self._know(state, lane, offset)
        first = lane.known[lane.unsettled] if lane.unsettled < len(lane.known) else offset
        if first < offset:
            self._violated(f"order: {what} before {first} is settled")
        last = lane.last.get(client)
        if last is not None and not last <= offset <= _next(lane, last):
            self._violated(f"repeat: {what} after {last}, when {_next(lane, last)} was to come")
        lane.last[client] = offset
        lane.running[client, offset] = True

    def ended(self, group: str, client: str, queue: MessageQueue, offset: int, key: str) -> None:
        """Record that a listener returned, raised or was cancelled."""
        self._lane(group, self._queues[group, queue], key).running.pop((client, offset), None)

    def processed(self, group: str, queue: MessageQueue, offset: int, key: str, number: int | None) -> None:
        """Record that a message is settled: a listener of the group succeeded on it, or failed for the last time.

        `number` is the message's number within its key; None if it failed for the last time.
        """
        state = self._queues[group, queue]
        if offset in state.settled:
            return
        self.settled += 1
        state.settled[offset] = None
        lane = self._lane(group, state, key)
        while lane.unsettled < len(lane.known) and lane.known[lane.unsettled] in state.settled:
            lane.unsettled += 1
        if number is not None:
            highest = self._numbers.get((group, key), -1)
            if number < highest:
                self._violated(f"numbers: {group} processes number {number} of key {key!r} after {highest}")
            self._numbers[group, key] = max(highest, number)

    # --- what is to come ---------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Acknowledged messages that a group has not settled yet, summed over the groups."""
        return sum(1 for _ in self._unsettled())

    def missing(self) -> list[str]:
        """A line for each message that is lost if no more are delivered, up to `MAX_VIOLATIONS`."""
        lost = [f"lost: {group} has not settled {queue} {offset}" for group, queue, offset in self._unsettled()]
        return lost[:MAX_VIOLATIONS]

    # --- state -------------------------------------------------------------------------------------------------------

    def _unsettled(self) -> Iterator[tuple[str, MessageQueue, int]]:
        for group in self._by_key:
            for queue, offset in self._acknowledged:
                if offset not in self._queues[group, queue].settled:
                    yield group, queue, offset

    def _violated(self, what: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def _lane(self, group: str, state: _CheckedQueue, key: str) -> _CheckedLane:
        return state.lanes.setdefault(key if self._by_key[group] else "", _CheckedLane())

    def _know(self, state: _CheckedQueue, lane: _CheckedLane, offset: int) -> None:
        """Insert an offset; an acknowledgement may arrive after its message and later ones were delivered."""
        place = bisect_right(lane.known, offset)
        if place and lane.known[place - 1] == offset:
            return
        insort(lane.known, offset)
        if place < lane.unsettled:
            # A message settled behind it has overtaken it; if this one were settled, it would be known already.
            self._violated(f"order: {offset} became known after {lane.known[place + 1]} of its lane was settled")
            lane.unsettled = place


def _next(lane: _CheckedLane, offset: int) -> int:
    """The first known offset after `offset`, or `offset` itself if there is none."""
    place = bisect_right(lane.known, offset)
    return lane.known[place] if place < len(lane.known) else offset
