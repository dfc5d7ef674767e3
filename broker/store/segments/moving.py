"""Chooses the messages that are worth copying to the end of the log, so that its oldest segments can be deleted.

A feature that keeps a few messages for a long time would keep every segment after them. A copy at the end of the log
frees their old segments. But each copy costs a write: a segment that is full of such messages would be copied again
and again. So messages are copied only if they are at most half of the bytes that this frees:

    segments A (100 bytes), B (100 bytes)      kept: 10 bytes of A      copy them, delete A
                                               kept: 80 of A, 15 of B   too many for A alone: copy, delete A and B
                                               kept: 80 of A, 80 of B   copy nothing
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.store.disk.errors import StoreReadFailed
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import ENTRY, ENTRY_BYTES, IndexRow, LogKey


def worth_moving(log: CommitLog, key: LogKey, kept_offsets: Iterable[int], end_position: int) -> list[int]:
    """Return the offsets to copy: the kept messages of a queue in the fewest oldest segments that are worth deleting.

    Returns an empty list if no number of segments is worth it. `kept_offsets` has the offsets, ascending. Segments that
    end after the log position `end_position` are not deleted, nor is the newest segment.

    Raises:
        StoreReadFailed: an I/O error.
    """
    offsets = iter(kept_offsets)
    offset = next(offsets, None)
    worth: list[int] = []
    found_bytes = freed_bytes = 0
    try:
        for segment in log.segments[:-1]:
            if segment.end_position > end_position:
                break
            freed_bytes += segment.size
            row = log.row(segment, key)
            while row is not None and offset is not None and offset < row.end_offset:
                worth.append(offset)
                found_bytes += _length(row, offset)
                offset = next(offsets, None)
            if worth and 2 * found_bytes <= freed_bytes:
                return worth
    except OSError as error:
        raise StoreReadFailed(f"cannot read {log.directory} ({error}): check the disk") from error
    return []


def _length(row: IndexRow, offset: int) -> int:
    """The bytes of a message; 0 if it is damaged, or its segment was deleted."""
    if offset < row.first_offset:
        return 0
    length: int = ENTRY.unpack_from(row.entries, (offset - row.first_offset) * ENTRY_BYTES)[1]
    return length
