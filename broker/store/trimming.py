"""Removes old segments, and answers what retention asks of the log; `broker/retention/plan.py` decides how far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import LogKey


class SegmentSpan(NamedTuple):
    """One file of the log, as retention sees it; `newest_ms` is the time of its newest record, or else of its start."""

    base_position: int
    end_position: int
    newest_ms: int


class FirstNeeded(NamedTuple):
    """The oldest segment that is still needed, by its log position, and a queue with messages in it that are needed."""

    position: int
    key: LogKey


def spans_of(log: CommitLog) -> list[SegmentSpan]:
    """Return all segments, oldest first; the last one is being written."""
    return [SegmentSpan(each.base_position, each.end_position, each.last_stored_ms) for each in log.segments]


def first_needed(log: CommitLog, needs: Mapping[LogKey, int], before: int) -> FirstNeeded | None:
    """Find the oldest segment that holds a message at or after the first offset that is needed of its queue.

    Only segments that end at or before the log position `before` are looked at, because the others are not about to be
    removed. Of each, only where its queues end is read, which is one part of its index file. A queue that is not in
    `needs` is not needed.

    Raises:
        OSError: an index cannot be read.
    """
    if not needs:
        return None
    for segment in log.segments[:-1]:
        if segment.end_position > before:
            return None
        ends = log.ends(segment)
        for key, offset in needs.items():
            if ends.get(key, 0) > offset:
                return FirstNeeded(segment.base_position, key)
    return None


def remove_before(log: CommitLog, to_position: int, free: Callable[[int], None] | None = None) -> int:
    """Remove the oldest segments that end at or before a log position, and return how many; see `MessageStore.trim`.

    Raises:
        OSError: a file could not be removed; the segments before it are gone.
    """
    before = len(log.segments)
    while len(log.segments) > 1:
        second = log.segments[1]
        # The ends of the queues are written at the start of the second one; the disk must not forget both.
        if second.base_position > to_position or not second.synced_size:
            break
        log.remove_oldest(free)
    return before - len(log.segments)
