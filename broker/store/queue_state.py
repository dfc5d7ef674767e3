"""The memory of one queue: its offsets, its newest records, and what readers do not see of it yet. Pure.

min_offset <= end_offset <= flushed_offset <= next_offset, and tail_base <= flushed_offset

[min_offset, tail_base)         only in the files
[tail_base, flushed_offset)     in the files and in `tail`
[end_offset, flushed_offset)    in the files, and held back until they are synced or committed; mostly empty
[flushed_offset, next_offset)   appended but not flushed: in `tail`, not visible to readers

The newest records leave memory first in, first out, over all queues, under one budget of bytes. A read finds them at
their queue, with one slice. The order is kept in generations of a fraction of the budget, not per record: one
generation maps each queue to where it ended when the generation was full, and evicting a generation cuts the tail of
every such queue there. So an append costs one dict store per queue and batch, and evicting costs one `del` per queue
and generation.

    g1 {q0: 3, q1: 1}   g2 {q0: 5}   ...      evict g1: q0.tail starts at 3 now, q1.tail at 1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct

from broker.store.segments.index import IndexRow, LogKey
from broker.store.segments.segment import Segment

_GENERATIONS = 32
RECORD_OVERHEAD_BYTES = 48
"""Memory of a record beyond its bytes: the object's header, its slot in the list, rounding."""


class QueueState:
    """Offsets, recent records and current index row of one queue; the module's docstring has the order of the offsets.

    A plain record: only the classes of the store change it.
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

    def __init__(self, key: LogKey, min_offset: int, end_offset: int, row: IndexRow) -> None:
        self.key = key
        self.min_offset = min_offset
        self.end_offset = end_offset  # a reader may see messages before it; see `StoreWriter.show_only_synced`
        self.flushed_offset = end_offset
        self.next_offset = end_offset
        self.tail_base = end_offset
        self.tail: list[bytes] = []  # the newest records, encoded; the first one has the offset `tail_base`
        self.longest_bytes = 0  # no record in `tail` is longer; lets a read skip adding up lengths
        self.row = row  # its row in the index of the segment being written
        # Where old records were last found: a reader that catches up asks for the same one again.
        self.last_read_segment: Segment | None = None

    def drop_tail_before(self, offset: int) -> None:
        """Forget the records below an offset; they stay in the files."""
        if self.tail_base < offset:
            del self.tail[: offset - self.tail_base]
            self.tail_base = offset


class HiddenFlushes:
    """The flushes that readers do not see yet, oldest first; `shown_position` is the log position before them.

    Each is recorded with the log position after it and the new ends of its queues:

        flush to 100: q0 ends at 3      flush to 150: q0 at 4, q1 at 1      flush to 200: q1 at 2
        shown up to 170: q0 ends at 4, q1 at 1
    """

    def __init__(self, shown_position: int) -> None:
        self.shown_position = shown_position
        self._flushes: deque[tuple[int, list[tuple[QueueState, int]]]] = deque()

    def add(self, position: int, queues: Iterable[QueueState]) -> None:
        """Record a flush that ends at a log position, and hide its messages from the readers of these queues."""
        ends: list[tuple[QueueState, int]] = []
        for queue in queues:
            queue.flushed_offset = queue.next_offset
            ends.append((queue, queue.next_offset))
        self._flushes.append((position, ends))

    def show(self, position: int) -> dict[QueueState, None]:
        """Show the flushes up to a log position to readers; returns their queues."""
        shown_queues: dict[QueueState, None] = {}
        flushes = self._flushes
        while flushes and flushes[0][0] <= position:
            for queue, end_offset in flushes.popleft()[1]:
                queue.end_offset = end_offset
                shown_queues[queue] = None
        self.shown_position = max(self.shown_position, position)
        return shown_queues


class TailCache:
    """Keeps the sum of all queues' tails under a budget."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._generation_bytes = budget_bytes // _GENERATIONS
        self._full: deque[tuple[dict[QueueState, int], int]] = deque()
        self._newest: dict[QueueState, int] = {}
        self._newest_bytes = 0
        self.bytes = 0

    def added(self, queues: list[QueueState], size: int, count: int) -> None:
        """Account for a flushed batch of `count` records in these queues, and evict what no longer fits."""
        newest = self._newest
        for queue in queues:
            newest[queue] = queue.flushed_offset
        size += count * RECORD_OVERHEAD_BYTES
        self.bytes += size
        self._newest_bytes += size
        if self._newest_bytes >= self._generation_bytes:
            self._full.append((newest, self._newest_bytes))
            self._newest = {}
            self._newest_bytes = 0
            while self.bytes > self._budget_bytes and self._full:
                self._evict(*self._full.popleft())

    def _evict(self, ends: dict[QueueState, int], size: int) -> None:
        for queue, end_offset in ends.items():
            queue.drop_tail_before(end_offset)
        self.bytes -= size


_unpack_tag_hash = Struct(">i").unpack_from
_TAG_HASH_AT = 32


def read_tail(
    queue: QueueState, offset: int, *, max_n: int, max_bytes: int, scan_records: int, tag_hashes: frozenset[int] | None
) -> tuple[bytes, int, int]:
    """Read records that are in memory, from an offset in the queue's tail; as `LogReader.read`."""
    records: list[bytes] = []
    size = 0
    first = offset - queue.tail_base
    last = min(queue.end_offset - queue.tail_base, first + scan_records)
    for record in queue.tail[first:last]:
        if tag_hashes is None or _unpack_tag_hash(record, _TAG_HASH_AT)[0] in tag_hashes:
            size += len(record)
            if records and size > max_bytes:
                break
            records.append(record)
            if len(records) == max_n:
                offset += 1
                break
        offset += 1
    return b"".join(records), len(records), offset
