"""Finds message n of queue q in a segment: an index with one row per queue and one entry per message. Pure.

Each segment has an index of its own, so removing a segment removes its index, and an index file, once there, never
changes: its presence says that the segment is complete and synced, and need not be scanned after a crash. A row
exists for **every** queue that the broker had, also for one without a message in this segment, so that a search over
the segments can ask any of them "is offset n before you, in you or after you?". (RocketMQ keeps one file per queue
instead: thousands of small files to sync, and a checkpoint file to say how far they can be trusted.)

While a segment is written its index is a `MemoryIndex`; later it is read from its file (`index_file.py`). Entries are
dense: entry i of a row is offset `first_offset + i`. An entry of length 0 is a hole: that message was found damaged.

    entry  position u32 (in the segment), length u32, tag_hash i32, stored_ms u64       20 bytes, big-endian
"""

from __future__ import annotations

import struct
from bisect import bisect_left

ENTRY = struct.Struct(">IIiQ")
ENTRY_BYTES = ENTRY.size
_STORED_MS = struct.Struct(">Q")
_STORED_MS_AT = 12

LogKey = tuple[int, int]
"""(topic_id, queue_id)."""


class IndexRow:
    """The messages of one queue in one segment: packed entries, which grow while the segment is written.

    `first_offset` is the offset of the first entry; without entries, the one that the next message got elsewhere.
    """

    __slots__ = ("entries", "first_offset")

    def __init__(self, first_offset: int, entries: bytearray | bytes) -> None:
        self.first_offset = first_offset
        self.entries = entries

    @property
    def count(self) -> int:
        """Number of entries, holes included."""
        return len(self.entries) // ENTRY_BYTES

    @property
    def end_offset(self) -> int:
        """Offset after the last entry."""
        return self.first_offset + len(self.entries) // ENTRY_BYTES

    def remove_last(self, count: int) -> None:
        """Remove the newest entries."""
        self.entries = self.entries[: len(self.entries) - count * ENTRY_BYTES]

    def first_at_or_after(self, timestamp_ms: int) -> int:
        """Return the offset of the first entry stored at or after a time; `end_offset` if there is none."""
        entries = self.entries

        def stored_ms(index: int) -> int:
            time_ms: int = _STORED_MS.unpack_from(entries, index * ENTRY_BYTES + _STORED_MS_AT)[0]
            return time_ms

        return self.first_offset + bisect_left(range(self.count), timestamp_ms, key=stored_ms)

    def lost_ranges(self, segment_size: int) -> list[tuple[int, int]]:
        """Return the ranges (first offset, offset after the last) that a segment of this many bytes cannot serve.

        Those are the holes, and entries beyond the end of a file that was cut short.
        """
        ranges: list[tuple[int, int]] = []
        for offset, (position, length, _, _) in enumerate(ENTRY.iter_unpack(self.entries), self.first_offset):
            if length and position + length <= segment_size:
                continue
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = (ranges[-1][0], offset + 1)
            else:
                ranges.append((offset, offset + 1))
        return ranges


class MemoryIndex:
    """The index of a segment that is being written, or whose index file is still to be written."""

    __slots__ = ("hole_count", "rows")

    def __init__(self, firsts: dict[LogKey, int]) -> None:
        """Begin with an empty row for each queue; `firsts` is the offset of the next message that it gets."""
        self.rows = {key: IndexRow(first, bytearray()) for key, first in firsts.items()}
        self.hole_count = 0

    def add_row(self, key: LogKey, first_offset: int) -> IndexRow:
        """Begin the row of a new queue."""
        row = self.rows[key] = IndexRow(first_offset, bytearray())
        return row

    def add_holes(self, row: IndexRow, count: int, stored_ms: int) -> None:
        """Append entries for messages that are damaged; they get the time of a neighbour, so that times stay sorted."""
        row.entries += ENTRY.pack(0, 0, 0, stored_ms) * count
        self.hole_count += count

    def drop_topic(self, topic_id: int) -> None:
        """Forget the rows of a topic that was deleted while this segment was written."""
        for key in [key for key in self.rows if key[0] == topic_id]:
            del self.rows[key]

    def row(self, key: LogKey) -> IndexRow | None:
        """Return the row of a queue; None if the segment is older, or the queue was dropped before it."""
        return self.rows.get(key)

    def first_offset(self, key: LogKey) -> int:
        """Return the first offset of a queue's row; 0 without one, because its offsets begin in a later segment."""
        row = self.rows.get(key)
        return row.first_offset if row is not None else 0

    def firsts(self) -> dict[LogKey, int]:
        """Return the first offset of every row."""
        return {key: row.first_offset for key, row in self.rows.items()}

    def ends(self) -> dict[LogKey, int]:
        """Return the offset after the last entry for each queue."""
        return {key: row.end_offset for key, row in self.rows.items()}
