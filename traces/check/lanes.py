"""Checks the order in one group, from a ledger: messages of one lane are processed one after another. Pure.

A *lane* is a sequence that has to stay in order: a whole queue, or the messages of a queue with one key. A message is
*settled* when it is processed or dead. The rules hold in spite of joins, leaves, crashes and partitions:

    owner     a message is dispatched by the member that holds the lease, never while another member does
    overlap   it starts only when no listener of a live owner has another message of its lane
    order     it starts only when every message before it is settled
    repeat    an owner that repeats messages does so from one offset on, in order: it skips none, and does not go back
              once a later message has started

The first processing counts, and later ones have to repeat a suffix in order. A listener cannot be stopped from outside.
So a message that was dispatched when the broker ended the lease of its member (session expired, connection lost) does
not block the next owner; a message dispatched when a member *releases* a queue does.

    granted(q0, c1)   started(c1, q0, "a", 0)   started(c1, q0, "b", 1)     two lanes
    started(c1, q0, "a", 4)      overlap: the listener still has 0 of lane a
    started(c2, q0, "b", 5)      owner: c1 holds q0
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from traces.check.evidence import Evidence
from traces.check.limits import OrderScope
from traces.check.verdict import Rule

MAX_SETTLED = 256
"""Settled messages of a lane that are kept before its first unsettled one: more than an owner repeats."""
LANE_KINDS = frozenset(
    {EventKind.LOCK_GRANTED, EventKind.QUEUE_RELEASED, EventKind.LOCK_EXPIRED, EventKind.QUEUE_ACQUIRED}
)


@dataclass(slots=True)
class _Lane:
    """One sequence of messages.

    Attributes:
        known: existing offsets above `floor`, ascending.
        unsettled: index in `known` of the first offset that may be unsettled.
        running: (client id, offset) of a dispatched message -> its dispatch, and whether the next owner has to wait for
            it.
        last: client id -> the message that it started last since it acquired the queue.
    """

    known: list[int] = field(default_factory=list)
    settled: dict[int, None] = field(default_factory=dict)
    unsettled: int = 0
    floor: int = -1  # all offsets up to here are settled and removed
    running: dict[tuple[str, int], tuple[Event, bool]] = field(default_factory=dict)
    last: dict[str, Event] = field(default_factory=dict)


@dataclass(slots=True)
class _Queue:
    """One queue: the grant of its lease, and its lanes by key."""

    granted: Event | None = None
    lanes: defaultdict[str, _Lane] = field(default_factory=lambda: defaultdict(_Lane))


class Lanes:
    """The lanes of one group."""

    def __init__(self, group: str, keeps: OrderScope, evidence: Evidence) -> None:
        self._group = group
        self._keeps = keeps
        self._evidence = evidence
        self._queues: defaultdict[MessageQueue, _Queue] = defaultdict(_Queue)

    def watch(self, event: Event) -> None:
        """Process an event about leases or acquired queues."""
        queue = self._queues[MessageQueue(event.topic, event.broker, event.queue_id)]
        client = event.client
        if event.kind == EventKind.LOCK_GRANTED:
            queue.granted = event
        elif event.kind == EventKind.QUEUE_RELEASED:
            queue.granted = None
        elif event.kind == EventKind.LOCK_EXPIRED:
            queue.granted = None
            for lane in queue.lanes.values():
                lane.running.update(
                    {each: (lane.running[each][0], False) for each in lane.running if each[0] == client}
                )
        else:
            for lane in queue.lanes.values():
                lane.last.pop(client, None)

    def sent(self, line: Event, queue: MessageQueue, key: str) -> None:
        """Record that a broker acknowledged a message, which belongs to a lane."""
        if self._keeps is not OrderScope.NONE:
            self._insert(self._lane(self._queues[queue], key), line)

    def started(self, line: Event, queue: MessageQueue, key: str) -> None:
        """Record that a listener is called with a message, and check the rules."""
        if self._keeps is OrderScope.NONE:
            return
        self._evidence.checked[Rule.OUT_OF_ORDER] += 1
        state = self._queues[queue]
        lane = self._lane(state, key)
        dispatch_text = f"{line.client} was given offset {line.offset:,} of {queue}" + (f" (key {key})" if key else "")
        if state.granted is not None and state.granted.client != line.client:
            text = f"{dispatch_text} while {state.granted.client} held the lease of the queue."
            doubt = self._evidence.clocks.ledger_uncertainty(line.broker)
            self._evidence.add(Rule.DOUBLE_OWNER, line, text, [state.granted, line], order_uncertainty=doubt)
        for (other, offset), (start, waited_for) in lane.running.items():
            if waited_for or other == line.client:
                text = f"{dispatch_text} while offset {offset:,} of the same lane was with a listener of {other}."
                self._evidence.add(Rule.OUT_OF_ORDER, line, text, [start, line])
        self._insert(lane, line)
        first = lane.known[lane.unsettled] if lane.unsettled < len(lane.known) else line.offset
        if first < line.offset:
            text = f"{dispatch_text} before offset {first:,} of the same lane was processed."
            self._evidence.add(Rule.OUT_OF_ORDER, line, text, [*lane.last.values(), line])
        self._check_repeat(lane, line, dispatch_text)
        lane.last[line.client] = line
        lane.running[line.client, line.offset] = (line, True)

    def _check_repeat(self, lane: _Lane, line: Event, dispatch_text: str) -> None:
        last = lane.last.get(line.client)
        if last is None or last.offset <= lane.floor:
            return
        following = _next(lane, last.offset)
        doubt = self._evidence.clocks.ledger_uncertainty(
            line.client
        )  # the member may have acquired the queue just before
        if line.offset < last.offset:
            text = f"{dispatch_text} after offset {last.offset:,}, without having acquired the queue again."
            self._evidence.add(Rule.NONMONOTONIC_POLL, line, text, [last, line], order_uncertainty=doubt)
        elif line.offset > following:
            text = f"{dispatch_text} after offset {last.offset:,}, and left out offset {following:,} of the same lane."
            self._evidence.add(Rule.POLL_SKIP, line, text, [last, line], order_uncertainty=doubt)

    def ended(self, line: Event, queue: MessageQueue, key: str, *, settled: bool) -> None:
        """Record that a listener has ended a message; `settled` means that no redelivery is needed."""
        if self._keeps is OrderScope.NONE:
            return
        lane = self._lane(self._queues[queue], key)
        lane.running.pop((line.client, line.offset), None)
        if not settled or line.offset <= lane.floor:
            return
        lane.settled[line.offset] = None
        while lane.unsettled < len(lane.known) and lane.known[lane.unsettled] in lane.settled:
            lane.unsettled += 1
        if lane.unsettled >= 2 * MAX_SETTLED:
            for offset in lane.known[:MAX_SETTLED]:
                del lane.settled[offset]
            lane.floor = lane.known[MAX_SETTLED - 1]
            del lane.known[:MAX_SETTLED]
            lane.unsettled -= MAX_SETTLED

    def _lane(self, queue: _Queue, key: str) -> _Lane:
        return queue.lanes[key if self._keeps is OrderScope.KEY else ""]

    def _insert(self, lane: _Lane, line: Event) -> None:
        """Insert an offset; an acknowledgement may arrive after its message and later ones were delivered."""
        offset = line.offset
        if offset <= lane.floor:
            return
        index = bisect_right(lane.known, offset)
        if index and lane.known[index - 1] == offset:
            return
        insort(lane.known, offset)
        if index < lane.unsettled:
            # A settled message with a higher offset has overtaken it; if this one were settled, it would be known
            # already.
            text = (
                f"Offset {offset:,} of {line.topic}@{line.broker}:{line.queue_id} was acknowledged, and offset "
                f"{lane.known[index + 1]:,} of the same lane was processed before it."
            )
            self._evidence.add(Rule.OUT_OF_ORDER, line, text, [line, *lane.last.values()])
            lane.unsettled = index


def _next(lane: _Lane, offset: int) -> int:
    """Return the first known offset after `offset`, or `offset` itself if there is none."""
    index = bisect_right(lane.known, offset)
    return lane.known[index] if index < len(lane.known) else offset
