"""The removal of old segments, and what it asks of the log; `broker/retention/plan.py` decides how far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import QueueKey


class SegmentSpan(NamedTuple):
    """One file of the log, as retention sees it.

    Attributes:
        base_position: log position of its first byte.
        end_position: log position after its last byte.
        newest_ms: wall clock in milliseconds of its newest record, or of its start before there is one.
    """

    base_position: int
    end_position: int
    newest_ms: int


class FirstNeeded(NamedTuple):
    """The oldest segment that somebody still has to read.

    Attributes:
        position: log position of its first byte.
        key: a queue with messages in it that are needed.
    """

    position: int
    key: QueueKey


def spans_of(log: CommitLog) -> list[SegmentSpan]:
    """Return all segments, oldest first; the last one is being written."""
    return [SegmentSpan(each.base_position, each.end_position, each.last_stored_ms) for each in log.segments]


def first_needed(log: CommitLog, needs: Mapping[QueueKey, int], before: int) -> FirstNeeded | None:
    """Find the oldest segment that holds a message at or after what its queue is needed from.

    Only segments that end at or before a position are looked at, because the others are not about to be removed. Of
    each, only where its queues end is asked, which is one part of its index file.

    Args:
        log: the log.
        needs: queue -> first offset that is needed of it; a queue that is not in it is not needed.
        before: log position.

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
    """Remove the oldest segments that end at or before a position; never the last one that is durable.

    Args:
        log: the log.
        to_position: log position.
        free: see `MessageStore.trim`.

    Returns:
        How many.

    Raises:
        OSError: a file could not be removed; the segments before it are gone.
    """
    before = len(log.segments)
    while len(log.segments) > 1:
        second = log.segments[1]
        # Where the queues stand is written at the start of the second one; the disk must not forget both.
        if second.base_position > to_position or not second.synced_size:
            break
        log.remove_oldest(free)
    return before - len(log.segments)
