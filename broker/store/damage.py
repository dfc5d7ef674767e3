"""Remembers which offsets of which queue are damaged or missing: readers skip them, the broker reports them. Pure.

add("0.log", (1, 0), 5, 7)      queue 0 of topic 1 has lost the messages 5 and 6, which were in 0.log
count((1, 0), 6, 20)            1: of the messages 6 to 19, one is lost
collect_new()                   the damage added since the last call, once
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from broker.store.segments.index import LogKey

MAX_RANGES = 10_000
"""Ranges that are remembered; more are only counted. A disk with more damage has to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DamagedRange:
    """The offsets [first_offset, end_offset) of one queue, which cannot be served.

    `segment` is the file name of the segment that holds, or should hold, their records.
    """

    segment: str
    topic_id: int
    queue_id: int
    first_offset: int
    end_offset: int

    @property
    def n(self) -> int:
        """Number of messages."""
        return self.end_offset - self.first_offset


_Range = tuple[int, int, str]
"""(first offset, offset after the last, segment)."""


class DamageLog:
    """Collects ranges as recovery and reads come upon them, joining those of a segment that touch.

    Invariant: the ranges of a queue are sorted and do not overlap.
    """

    def __init__(self) -> None:
        self.unlisted_count = 0
        self._ranges: dict[LogKey, list[_Range]] = {}
        self._count = 0
        self._new: list[DamagedRange] = []

    def add(self, segment: str, key: LogKey, first_offset: int, end_offset: int) -> None:
        """Add a range; parts that are known already, of whichever segment, change nothing."""
        for first, end in _outside(self._ranges.get(key, ()), first_offset, end_offset):
            self._add(key, (first, end, segment))

    def _add(self, key: LogKey, added: _Range) -> None:
        ranges = self._ranges.get(key, [])
        merged = _joined([*ranges, added])
        if len(merged) > len(ranges) and self._count >= MAX_RANGES:
            self.unlisted_count += 1
            return
        self._ranges[key] = merged
        self._count += len(merged) - len(ranges)
        self._new.append(_damage(key, added))

    @property
    def has_new(self) -> bool:
        """Whether something was noted since the last `collect_new`."""
        return bool(self._new)

    def collect_new(self) -> list[DamagedRange]:
        """Return the damage noted since the last call, sorted, in ranges as long as possible."""
        if not self._new:
            return []
        new, self._new = sorted(self._new), []
        merged = new[:1]
        for each in new[1:]:
            last = merged[-1]
            if replace(each, first_offset=last.first_offset) == replace(last, end_offset=each.end_offset) and (
                last.end_offset == each.first_offset
            ):
                merged[-1] = replace(last, end_offset=each.end_offset)
            else:
                merged.append(each)
        return merged

    def count(self, key: LogKey, first_offset: int, end_offset: int) -> int:
        """Return how many of the offsets [first_offset, end_offset) of a queue are lost."""
        ranges = self._ranges.get(key)
        if ranges is None:
            return 0
        index = max(bisect_right(ranges, first_offset, key=lambda item: item[0]) - 1, 0)
        n_lost = 0
        for first, end, _ in ranges[index:]:
            if first >= end_offset:
                break
            n_lost += max(0, min(end, end_offset) - max(first, first_offset))
        return n_lost

    def next_readable(self, key: LogKey, offset: int) -> int:
        """Return the first offset from this one on that is not lost: a reader gets past a hole in one step."""
        for first, end, _ in self._ranges.get(key, ()):
            if first <= offset < end:
                offset = end
        return offset

    def total(self, key: LogKey) -> int:
        """Return how many messages of a queue are lost."""
        ranges = self._ranges.get(key)  # mostly none, and answers of operators ask for each of all queues
        return sum(end - first for first, end, _ in ranges) if ranges else 0

    def forget_before(self, key: LogKey, offset: int) -> None:
        """Forget the damage below an offset of a queue: those messages were deleted."""
        ranges = self._ranges.pop(key, [])
        remaining = [(max(first, offset), end, segment) for first, end, segment in ranges if end > offset]
        self._count -= len(ranges) - len(remaining)
        if remaining:
            self._ranges[key] = remaining

    def forget(self, key: LogKey) -> None:
        """Forget a queue, whose topic was deleted."""
        self._count -= len(self._ranges.pop(key, ()))
        self._new = [each for each in self._new if (each.topic_id, each.queue_id) != key]

    def report(self) -> tuple[DamagedRange, ...]:
        """Return all ranges, sorted."""
        return tuple(sorted(_damage(key, damaged) for key, ranges in self._ranges.items() for damaged in ranges))


def _damage(key: LogKey, damaged: _Range) -> DamagedRange:
    first, end, segment = damaged
    return DamagedRange(segment=segment, topic_id=key[0], queue_id=key[1], first_offset=first, end_offset=end)


def _outside(ranges: Iterable[_Range], first_offset: int, end_offset: int) -> list[tuple[int, int]]:
    """Return the parts of [first_offset, end_offset) that are in none of these ranges, which are sorted."""
    parts = []
    for first, end, _ in ranges:
        if end <= first_offset or first >= end_offset:
            continue
        if first > first_offset:
            parts.append((first_offset, first))
        first_offset = end
    if first_offset < end_offset:
        parts.append((first_offset, end_offset))
    return parts


def _joined(ranges: list[_Range]) -> list[_Range]:
    merged: list[_Range] = []
    for first, end, segment in sorted(ranges):
        if merged and merged[-1][1] == first and merged[-1][2] == segment:
            merged[-1] = (merged[-1][0], end, segment)
        else:
            merged.append((first, end, segment))
    return merged
