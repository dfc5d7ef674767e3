"""Order in one group, from a ledger: messages of one lane are processed one after another. Pure.

A *lane* is a sequence that has to stay in order: a whole queue, or the messages of a queue with one key. A message is
*settled* when it is processed or dead. Whatever members join, leave, crash or are cut off:

    owner     a message is dispatched by the member that holds the lease, never while another member does
    overlap   it starts only when no other message of its lane is with a listener of a live owner
    order     it starts only when every message before it is settled
    repeat    an owner repeats messages from some point on, one after the other: it leaves none out, and goes back to
              none once a later one has started

The first processing counts, and the others have to repeat a suffix in order. A listener cannot be stopped from outside,
so a message dispatched when the broker ended the lease of its member (session expired, connection lost) does not hold
up the next owner; one dispatched when a member *releases* a queue does.

    granted(q0, c1)   started(c1, q0, "a", 0)   started(c1, q0, "b", 1)     two lanes
    started(c1, q0, "a", 4)      overlap: 0 of lane a is with the listener
    started(c2, q0, "b", 5)      owner: c1 holds q0
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from traces.check.evidence import Evidence
from traces.check.limits import Keeps
from traces.check.verdict import Rule

MAX_SETTLED = 256
"""Settled messages of a lane that are remembered before its first unsettled one: more than an owner repeats."""
LANE_KINDS = frozenset(
    {EventKind.LOCK_GRANTED, EventKind.QUEUE_RELEASED, EventKind.LOCK_EXPIRED, EventKind.QUEUE_ACQUIRED}
)


@dataclass(slots=True)
class _Lane:
    """One sequence of messages.

    Attributes:
        known: offsets that exist, ascending, above `floor`.
        unsettled: index in `known` of the first that may be unsettled.
        running: (client id, offset) of a dispatched message -> its dispatch, and whether the next owner waits for it.
        last: client id -> what it started last since it acquired the queue.
    """

    known: list[int] = field(default_factory=list)
    settled: dict[int, None] = field(default_factory=dict)
    unsettled: int = 0
    floor: int = -1  # everything up to here is settled and forgotten
    running: dict[tuple[str, int], tuple[Event, bool]] = field(default_factory=dict)
    last: dict[str, Event] = field(default_factory=dict)


@dataclass(slots=True)
class _Queue:
    """One queue: who holds its lease, and its lanes by key."""

    granted: Event | None = None
    lanes: defaultdict[str, _Lane] = field(default_factory=lambda: defaultdict(_Lane))


class Lanes:
    """The lanes of one group."""

    def __init__(self, group: str, keeps: Keeps, evidence: Evidence) -> None:
        self._group = group
        self._keeps = keeps
        self._evidence = evidence
        self._queues: defaultdict[MessageQueue, _Queue] = defaultdict(_Queue)

    def watch(self, event: Event) -> None:
        """Take an event about leases or acquired queues."""
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
        """A broker acknowledged a message: it is one of its lane."""
        if self._keeps is not Keeps.NOTHING:
            self._know(self._lane(self._queues[queue], key), line)

    def started(self, line: Event, queue: MessageQueue, key: str) -> None:
        """A listener is called with a message."""
        if self._keeps is Keeps.NOTHING:
            return
        self._evidence.checked[Rule.OUT_OF_ORDER] += 1
        state = self._queues[queue]
        lane = self._lane(state, key)
        what = f"{line.client} was given offset {line.offset:,} of {queue}" + (f" (key {key})" if key else "")
        if state.granted is not None and state.granted.client != line.client:
            text = f"{what} while {state.granted.client} held the lease of the queue."
            doubt = self._evidence.clocks.ledger_doubt(line.broker)
            self._evidence.add(Rule.DOUBLE_OWNER, line, text, [state.granted, line], order_doubt=doubt)
        for (other, offset), (start, waited_for) in lane.running.items():
            if waited_for or other == line.client:
                text = f"{what} while offset {offset:,} of the same lane was with a listener of {other}."
                self._evidence.add(Rule.OUT_OF_ORDER, line, text, [start, line])
        self._know(lane, line)
        first = lane.known[lane.unsettled] if lane.unsettled < len(lane.known) else line.offset
        if first < line.offset:
            text = f"{what} before offset {first:,} of the same lane was processed."
            self._evidence.add(Rule.OUT_OF_ORDER, line, text, [*lane.last.values(), line])
        self._check_repeat(lane, line, what)
        lane.last[line.client] = line
        lane.running[line.client, line.offset] = (line, True)

    def _check_repeat(self, lane: _Lane, line: Event, what: str) -> None:
        last = lane.last.get(line.client)
        if last is None or last.offset <= lane.floor:
            return
        following = _next(lane, last.offset)
        doubt = self._evidence.clocks.ledger_doubt(line.client)  # it may have acquired the queue just before
        if line.offset < last.offset:
            text = f"{what} after offset {last.offset:,}, without having acquired the queue anew."
            self._evidence.add(Rule.NONMONOTONIC_POLL, line, text, [last, line], order_doubt=doubt)
        elif line.offset > following:
            text = f"{what} after offset {last.offset:,}, and left out offset {following:,} of the same lane."
            self._evidence.add(Rule.POLL_SKIP, line, text, [last, line], order_doubt=doubt)

    def ended(self, line: Event, queue: MessageQueue, key: str, *, settled: bool) -> None:
        """A listener is done with a message; `settled` says that it need not come again."""
        if self._keeps is Keeps.NOTHING:
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
        return queue.lanes[key if self._keeps is Keeps.KEYS else ""]

    def _know(self, lane: _Lane, line: Event) -> None:
        """Insert an offset; an acknowledgement may arrive after its message and later ones were delivered."""
        offset = line.offset
        if offset <= lane.floor:
            return
        place = bisect_right(lane.known, offset)
        if place and lane.known[place - 1] == offset:
            return
        insort(lane.known, offset)
        if place < lane.unsettled:
            # A message settled behind it has overtaken it; if this one were settled, it would be known already.
            text = (
                f"Offset {offset:,} of {line.topic}@{line.broker}:{line.queue_id} was acknowledged, and offset "
                f"{lane.known[place + 1]:,} of the same lane was processed before it."
            )
            self._evidence.add(Rule.OUT_OF_ORDER, line, text, [line, *lane.last.values()])
            lane.unsettled = place


def _next(lane: _Lane, offset: int) -> int:
    """The first known offset after `offset`, or `offset` itself if there is none."""
    place = bisect_right(lane.known, offset)
    return lane.known[place] if place < len(lane.known) else offset
