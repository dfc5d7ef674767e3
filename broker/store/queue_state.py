"""What the store keeps in memory for one queue. A plain record: `MessageStore` is the only one that changes it.

min_offset <= end_offset <= flushed_offset <= next_offset, and tail_base <= flushed_offset

[min_offset, tail_base)         only in the files
[tail_base, flushed_offset)     in the files and in `tail`
[end_offset, flushed_offset)    in the files, and held back until they are synced; mostly empty
[flushed_offset, next_offset)   appended but not flushed: in `tail`, visible to nobody
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.store.segments.index import IndexRow, QueueKey

if TYPE_CHECKING:
    from broker.store.segments.segment import Segment


class QueueState:
    """Offsets, recent records and current index row of one queue; the module header says how the offsets relate.

    Attributes:
        key: (topic_id, queue_id).
        min_offset: the oldest message that is still stored.
        end_offset: the offset after the newest message that a reader may see.
        flushed_offset: the offset after the newest message that is in the file; see `StoreWriter.show_only_synced`.
        next_offset: the offset that the next append gets.
        tail_base: offset of `tail[0]`.
        tail: the newest records, encoded.
        longest_bytes: no record in `tail` is longer; lets a read skip adding up lengths.
        row: its row in the index of the segment being written.
        last_read_segment: where old records were last found: a reader that catches up asks for the same one again.
    """

    __slots__ = (
        "end_offset",
        "flushed_offset",
        "key",
        "last_read_segment",
        "longest_bytes",
        "min_offset",
        "next_offset",
        "row",
        "tail",
        "tail_base",
    )

    def __init__(self, key: QueueKey, min_offset: int, end_offset: int, row: IndexRow) -> None:
        self.key = key
        self.min_offset = min_offset
        self.end_offset = end_offset
        self.flushed_offset = end_offset
        self.next_offset = end_offset
        self.tail_base = end_offset
        self.tail: list[bytes] = []
        self.longest_bytes = 0
        self.row = row
        self.last_read_segment: Segment | None = None

    def drop_tail_before(self, offset: int) -> None:
        """Forget the records below an offset; they stay in the files."""
        if self.tail_base < offset:
            del self.tail[: offset - self.tail_base]
            self.tail_base = offset
