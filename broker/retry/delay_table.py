"""DelayTable: the delayed messages that are not delivered yet, and from where on a restart has to read. Pure.

Delayed messages are stored in a queue of the log in the order of their arrival, and become due in any order. Each
delivery appends a mark to a second queue. After a restart the two queues give the messages still to be delivered, and
the two numbers kept here say from which offsets on they have to be read:

    delayed  offset 0: due at 50   offset 1: due at 10   offset 2: due at 30
    at 10    deliver 1, mark 0 names it        low water: delayed 0, marks 0
    at 50    deliver 2, then 0                 low water: delayed 3, marks 3
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import NamedTuple

from model.errors import SystemBusy
from model.limits import MAX_DELAYED_MESSAGES


class LowWater(NamedTuple):
    """First offsets that a restart has to read, in the queue of delayed messages and in the queue of marks."""

    delayed: int
    marks: int


NOTHING_DONE = LowWater(0, 0)


class DelayTable:
    """Delayed messages of one broker, by their offset. Times are wall clock in milliseconds."""

    def __init__(self, low: LowWater = NOTHING_DONE, max_pending: int = MAX_DELAYED_MESSAGES) -> None:
        self._max_pending = max_pending
        self._heap: list[tuple[int, int]] = []
        self._order: deque[int] = deque()  # pending offsets in order of arrival; done ones leave at the head
        self._pending: dict[int, None] = {}
        self._marks: deque[tuple[int, int]] = deque()  # (mark, what it marks), from the first that still matters
        self._end = low

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, offset: int) -> bool:
        """Whether the delayed message at an offset is not delivered yet."""
        return offset in self._pending

    def check_room(self) -> None:
        """Check that there is room for one more message.

        Raises:
            SystemBusy: there are too many.
        """
        if len(self._pending) >= self._max_pending:
            raise SystemBusy(f"this broker has {self._max_pending} delayed messages already: retry later")

    def add(self, offset: int, due_ms: int) -> None:
        """Add a delayed message; offsets come in ascending order."""
        self._pending[offset] = None
        self._order.append(offset)
        heapq.heappush(self._heap, (due_ms, offset))
        self._end = self._end._replace(delayed=offset + 1)

    def take_due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Remove and return (due, offset) of due messages, earliest first; each is then `done` or `put_back`."""
        due: list[tuple[int, int]] = []
        while len(due) < limit and self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
            if entry[1] in self._pending:
                due.append(entry)
        return due

    def put_back(self, offset: int, due_ms: int) -> None:
        """Return a message that could not be delivered."""
        heapq.heappush(self._heap, (due_ms, offset))

    def done(self, offset: int, mark: int) -> None:
        """Remove a message that was delivered, and record the mark of that.

        Marks may name messages that are done already.
        """
        self._marks.append((mark, offset))
        self._end = self._end._replace(marks=mark + 1)
        self.forget(offset)

    def forget(self, offset: int) -> None:
        """Remove a message without a mark, because a restart will not find it either: it is not stored any more."""
        self._pending.pop(offset, None)
        while self._order and self._order[0] not in self._pending:
            self._order.popleft()
        low = self._order[0] if self._order else self._end.delayed
        while self._marks and self._marks[0][1] < low:
            self._marks.popleft()

    def shift(self, by_ms: int) -> None:
        """Move all due times, because the clock was set; they keep their order."""
        self._heap = [(due_ms + by_ms, offset) for due_ms, offset in self._heap]

    def next_due_ms(self) -> int | None:
        """When the next message is due, or earlier; None without any."""
        return self._heap[0][0] if self._heap else None

    def low_water(self) -> LowWater:
        """The first offsets that a restart has to read."""
        return LowWater(
            self._order[0] if self._order else self._end.delayed, self._marks[0][0] if self._marks else self._end.marks
        )
