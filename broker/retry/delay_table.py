"""DelayTable: the delayed messages that are not delivered yet, and from where on a restart has to read. Pure.

Delayed messages are stored in a queue of the log in the order of their arrival, and become due in any order. Each
delivery appends a mark to a second queue. After a restart the two queues give the messages still to be delivered, and
the two numbers kept here say from which offsets on they have to be read:

    delayed  offset 0: due at 50   offset 1: due at 10   offset 2: due at 30
    at 10    deliver 1, mark 0 names it        low water: delayed 0, marks 0
    at 50    deliver 2, then 0                 low water: delayed 3, marks 3

Messages that were sent with a delay may fill only a part of the table, so that failed messages always find a place:
delayed messages of one user do not stop the retries of others.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from model.errors import SystemBusy
from model.limits import MAX_DELAY_MARKS, MAX_DELAYED_MESSAGES, MAX_DELAYED_SENDS
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer

_AT_ONCE = 0
"""The due time of a message that is dropped."""
_SLACK = 1_000
"""Entries of finished messages, before the lists are rebuilt."""


class LowWaterMarks(NamedTuple):
    """First offsets that a restart has to read, in the queue of delayed messages and in the queue of marks."""

    delayed: int
    marks: int


NOTHING_DONE = LowWaterMarks(0, 0)


class Sharing(NamedTuple):
    """The number of the sharer of a delayed message, and whether the message is a retry of a failed one."""

    sharer: int
    is_retry: bool


UNSHARED = Sharing(0, False)


class DelayedEntry(NamedTuple):
    """A message that waits; `topic` is None if the topic was deleted, and then the message is dropped."""

    topic: str | None
    sharing: Sharing


@lru_cache(4_096)
def _waiting_for(topic: str | None, sharing: Sharing) -> DelayedEntry:
    """One shared object for equal entries: there may be a million of them."""
    return DelayedEntry(topic, sharing)


_ADVICE = "wait until some are delivered; other users' are taken"


class DelayTable:
    """Delayed messages of one broker, by their offset. Times are wall clock in milliseconds."""

    def __init__(
        self,
        low: LowWaterMarks = NOTHING_DONE,
        max_pending: int = MAX_DELAYED_MESSAGES,
        max_sends: int = MAX_DELAYED_SENDS,
        shares: ShareBook | None = None,
    ) -> None:
        self._max_pending = max_pending
        self._max_sends = min(max_sends, max_pending)
        self._n_sends = 0
        book = shares or ShareBook()
        self._all = book.of("delayed messages and retries", max_pending, _ADVICE)
        self._sends = book.of("delayed messages", self._max_sends, _ADVICE)
        self._heap: list[tuple[int, int]] = []
        self._order: deque[int] = deque()  # pending offsets in order of arrival; done ones leave at the head
        self._pending: dict[int, DelayedEntry] = {}
        self._marks: deque[tuple[int, int]] = deque()  # (mark, marked offset), from the first that still matters
        self._end = low

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, offset: int) -> bool:
        """Whether the delayed message at an offset is not delivered yet."""
        return offset in self._pending

    def check_room(self, sharer: Sharer = NO_SHARER, *, is_retry: bool = False) -> None:
        """Check that there is room for one more message.

        Raises:
            SystemBusy: there are too many, in all or of this sharer.
        """
        if not is_retry:
            if self._n_sends >= self._max_sends:
                raise SystemBusy(f"this broker has {self._max_sends} delayed messages already: retry later")
            self._sends.check(sharer)
        if len(self._pending) >= self._max_pending:
            raise SystemBusy(f"this broker has {self._max_pending} delayed messages already: retry later")
        self._all.check(sharer)

    def hold(self, sharing: Sharing) -> None:
        """Count a message that is being written; `unhold` follows when that is done, and `add` if it is written."""
        self._all.add(sharing.sharer)
        if not sharing.is_retry:
            self._n_sends += 1
            self._sends.add(sharing.sharer)

    def unhold(self, sharing: Sharing) -> None:
        """Undo `hold`."""
        self._all.remove(sharing.sharer)
        if not sharing.is_retry:
            self._n_sends -= 1
            self._sends.remove(sharing.sharer)

    def add(self, offset: int, due_ms: int, topic: str | None, sharing: Sharing = UNSHARED) -> None:
        """Add a delayed message; offsets come in ascending order. Without a topic it is due at once, and dropped."""
        self.hold(sharing)
        self._pending[offset] = _waiting_for(topic, sharing)
        self._order.append(offset)
        heapq.heappush(self._heap, (_AT_ONCE if topic is None else due_ms, offset))
        self._end = self._end._replace(delayed=offset + 1)

    def topic_of(self, offset: int) -> str | None:
        """The topic that a pending message is delivered to; None if it was deleted, and the message is dropped."""
        return self._pending[offset].topic

    def sharing_of(self, offset: int) -> Sharing:
        """The sharer of a pending message, and whether the message is a retry."""
        return self._pending[offset].sharing

    def delete_topic(self, topic: str) -> int:
        """Make the messages for a topic due at once, without a topic; returns how many there are."""
        deleted = [offset for offset, waiting in self._pending.items() if waiting.topic == topic]
        for offset in deleted:
            self._pending[offset] = _waiting_for(None, self.sharing_of(offset))
            heapq.heappush(self._heap, (_AT_ONCE, offset))
        return len(deleted)

    def waiting(self) -> Iterator[int]:
        """The offsets of the pending messages, ascending; nothing may be added or removed during the iteration."""
        return iter(self._pending)

    def due_times(self, offsets: Collection[int]) -> dict[int, int]:
        """When these messages are due, without those that were taken and are being delivered."""
        wanted_offsets = frozenset(offsets)
        return {offset: due_ms for due_ms, offset in self._heap if offset in wanted_offsets}

    def due_at(self, due_ms: int) -> list[int]:
        """The messages that are due at exactly this time."""
        return [offset for due, offset in self._heap if due == due_ms and offset in self._pending]

    def remove_due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Remove and return (due, offset) of due messages, earliest first; each is then `done` or `requeue`."""
        due: list[tuple[int, int]] = []
        while len(due) < limit and self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
            if entry[1] in self._pending:
                due.append(entry)
        return due

    def requeue(self, offset: int, due_ms: int) -> None:
        """Return a message that could not be delivered."""
        heapq.heappush(self._heap, (due_ms, offset))

    def done(self, offset: int, mark: int) -> None:
        """Remove a message that was delivered, and record the mark of that.

        Marks may name messages that are done already.
        """
        self._marks.append((mark, offset))
        if len(self._marks) > MAX_DELAY_MARKS:
            # Two become one that matters as long as either does: a restart reads a few marks more than it has to.
            each = iter(self._marks)
            pairs = zip_longest(each, each, fillvalue=(0, -1))
            self._marks = deque((first, max(named_offset, after)) for (first, named_offset), (_, after) in pairs)
        self._end = self._end._replace(marks=mark + 1)
        self.forget(offset)

    def forget(self, offset: int) -> None:
        """Remove a message without a mark, because a restart will not find it either: it is no longer stored."""
        waiting = self._pending.pop(offset, None)
        if waiting is not None:
            self.unhold(waiting.sharing)
        while self._order and self._order[0] not in self._pending:
            self._order.popleft()
        if max(len(self._heap), len(self._order)) > 2 * len(self._pending) + _SLACK:
            # Of messages that are done behind one that waits for long, or that went before their time.
            self._heap = [entry for entry in self._heap if entry[1] in self._pending]
            heapq.heapify(self._heap)
            self._order = deque(self._pending)
        low = self._order[0] if self._order else self._end.delayed
        while self._marks and self._marks[0][1] < low:
            self._marks.popleft()

    def shift(self, by_ms: int) -> None:
        """Move all due times, because the clock was set; they keep their order."""
        self._heap = [(due_ms + by_ms, offset) for due_ms, offset in self._heap]

    def next_due_ms(self) -> int | None:
        """When the next message is due, or earlier; None without any."""
        return self._heap[0][0] if self._heap else None

    def low_water(self) -> LowWaterMarks:
        """The first offsets that a restart has to read."""
        return LowWaterMarks(
            self._order[0] if self._order else self._end.delayed, self._marks[0][0] if self._marks else self._end.marks
        )
