"""Were messages processed in order, and by one owner at a time? The books of ordered groups. Pure.

A *lane* is what has to stay in order: a whole queue, or the messages of a queue with one key. What is checked, for each
lane of each group, whatever members join, leave, crash or are cut off:

    lease     a queue is granted only when no other member holds it
    owner     a message is handed out by whoever holds the lease, never while another member does
    overlap   it starts only when no other message of its lane is with a listener of an owner that lives
    order     it starts only when every message before it is settled: processed, or given up as a dead letter
    repeat    what an owner gets again are the messages from some point on, one after the other: none is left out, and
              none comes back once a later one has started
    numbers   what producers sent of a key as 0, 1, 2, ... is processed first in that order

A message that comes twice is no violation: its first processing counts, and the others have to repeat a suffix in
order. A listener cannot be stopped from outside, so what was with it when the broker ended the lease of its member
(session over, connection lost) does not hold up the next owner; what is with it when a member *releases* a queue does.

    granted(key-group, q0, c1)   started(c1, q0, "a", 0)   started(c1, q0, "b", 1)     two lanes
    started(c1, q0, "a", 4)      overlap: 0 of lane a is with the listener
    started(c2, q0, "b", 5)      owner: c1 holds q0
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.message_queue import MessageQueue

MAX_VIOLATIONS = 20
"""One broken thing breaks more; the first are worth reading."""

_Place = tuple[str, MessageQueue]


@dataclass(slots=True)
class _Lane:
    """One line of messages.

    Attributes:
        known: offsets that are there, ascending.
        unsettled: the first of `known` that may be unsettled, by its index.
        running: (client id, offset) of what is with a listener -> whether the next owner has to wait for it.
        last: client id -> the offset that it started last since it acquired the queue.
    """

    known: list[int] = field(default_factory=list)
    unsettled: int = 0
    running: dict[tuple[str, int], bool] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Queue:
    """One queue in one group: who holds it, its lanes by key, and the offsets that are settled."""

    holder: str = ""
    lanes: dict[str, _Lane] = field(default_factory=dict)
    settled: dict[int, None] = field(default_factory=dict)


class OrderCheck:
    """Books of one run.

    Args:
        by_key: group -> whether its lanes are keys; else they are queues.

    Attributes:
        violations: what must not have happened and did, the first `MAX_VIOLATIONS`.
        starts: calls of listeners.
        settled: messages that were settled, each counted once in each group.
    """

    def __init__(self, by_key: Mapping[str, bool]) -> None:
        self.violations: list[str] = []
        self.starts = 0
        self.settled = 0
        self._by_key = dict(by_key)
        self._queues: dict[_Place, _Queue] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._acknowledged: dict[tuple[MessageQueue, int], None] = {}

    # --- what happens ------------------------------------------------------------------------------------------------

    def watch(self, event: Event) -> None:
        """Note what brokers say of leases, and members of what they acquire; other groups are ignored."""
        if event.group not in self._by_key:
            return
        books = self._books(event.group, MessageQueue(event.topic, event.broker, event.queue_id))
        if event.kind == EventKind.LOCK_GRANTED:
            if books.holder not in ("", event.client):
                self._violated(f"lease: {event} although {books.holder} holds it")
            books.holder = event.client
        elif event.kind == EventKind.QUEUE_RELEASED:
            books.holder = ""
        elif event.kind == EventKind.LOCK_EXPIRED:
            books.holder = ""
            for lane in books.lanes.values():
                lane.running.update({each: False for each in lane.running if each[0] == event.client})
        elif event.kind == EventKind.QUEUE_ACQUIRED:
            for lane in books.lanes.values():
                lane.last.pop(event.client, None)

    def acknowledged(self, queue: MessageQueue, offset: int, key: str) -> None:
        """Note that a broker has a message: every group has to settle it."""
        self._acknowledged[queue, offset] = None
        for group in self._by_key:
            books = self._books(group, queue)
            self._know(books, self._lane(group, books, key), offset)

    def started(self, group: str, client: str, queue: MessageQueue, offset: int, key: str) -> None:
        """Note that a listener is called with a message."""
        self.starts += 1
        books = self._books(group, queue)
        lane = self._lane(group, books, key)
        what = f"{group}: {client} starts {queue} {offset} of key {key!r}"
        if books.holder not in ("", client):
            self._violated(f"owner: {what}, and {books.holder} holds the queue")
        for (other, running), waited_for in lane.running.items():
            if waited_for or other == client:
                self._violated(f"overlap: {what} while {running} is with {other}")
        self._know(books, lane, offset)
        first = lane.known[lane.unsettled] if lane.unsettled < len(lane.known) else offset
        if first < offset:
            self._violated(f"order: {what} before {first} is settled")
        last = lane.last.get(client)
        if last is not None and not last <= offset <= _next(lane, last):
            self._violated(f"repeat: {what} after {last}, when {_next(lane, last)} was to come")
        lane.last[client] = offset
        lane.running[client, offset] = True

    def ended(self, group: str, client: str, queue: MessageQueue, offset: int, key: str) -> None:
        """Note that a listener returned, raised or was cancelled."""
        self._lane(group, self._books(group, queue), key).running.pop((client, offset), None)

    def processed(self, group: str, queue: MessageQueue, offset: int, key: str, number: int | None) -> None:
        """Note that a message is settled: a listener of the group succeeded on it, or failed for the last time.

        Args:
            group: the group.
            queue: its queue.
            offset: its offset.
            key: its key.
            number: its number within its key; None for a message that failed for the last time.
        """
        books = self._books(group, queue)
        if offset in books.settled:
            return
        self.settled += 1
        books.settled[offset] = None
        lane = self._lane(group, books, key)
        while lane.unsettled < len(lane.known) and lane.known[lane.unsettled] in books.settled:
            lane.unsettled += 1
        if number is not None:
            highest = self._numbers.get((group, key), -1)
            if number < highest:
                self._violated(f"numbers: {group} processes number {number} of key {key!r} after {highest}")
            self._numbers[group, key] = max(highest, number)

    # --- what is to come ---------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Messages that are acknowledged and that a group has not settled, summed over the groups."""
        return sum(
            offset not in self._books(group, queue).settled
            for group in self._by_key
            for queue, offset in self._acknowledged
        )

    def missing(self) -> list[str]:
        """Messages that are lost if nothing comes any more, some lines."""
        lost = [
            f"lost: {group} has not settled {queue} {offset}"
            for group in self._by_key
            for queue, offset in self._acknowledged
            if offset not in self._books(group, queue).settled
        ]
        return lost[:MAX_VIOLATIONS]

    # --- books -------------------------------------------------------------------------------------------------------

    def _violated(self, what: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def _books(self, group: str, queue: MessageQueue) -> _Queue:
        books = self._queues.get((group, queue))
        if books is None:
            books = self._queues[group, queue] = _Queue()
        return books

    def _lane(self, group: str, books: _Queue, key: str) -> _Lane:
        return books.lanes.setdefault(key if self._by_key[group] else "", _Lane())

    def _know(self, books: _Queue, lane: _Lane, offset: int) -> None:
        """An acknowledgement may come after the message, and after those behind it."""
        place = bisect_right(lane.known, offset)
        if place and lane.known[place - 1] == offset:
            return
        insort(lane.known, offset)
        if place < lane.unsettled:
            # What is settled behind it has overtaken it, unless it is settled already, which makes it known before.
            self._violated(f"order: {offset} became known after {lane.known[place + 1]} of its lane was settled")
            lane.unsettled = place


def _next(lane: _Lane, offset: int) -> int:
    """The first known offset behind one that is known, or the one itself if there is none."""
    place = bisect_right(lane.known, offset)
    return lane.known[place] if place < len(lane.known) else offset
