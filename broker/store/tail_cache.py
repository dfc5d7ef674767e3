"""Which queues' newest records leave memory, and when: first in, first out, over all queues, under one budget of bytes.

The records themselves hang on their queues (`QueueState.tail`), where a read finds them with one slice. Here is only
the order. It is kept in generations of a fraction of the budget, not per record: one generation maps each queue to
where it ended when the generation was full, and evicting a generation cuts every such queue's tail there. So an
append costs one dict store per queue and batch, and evicting costs one `del` per queue and generation.

    g1 {q0: 3, q1: 1}   g2 {q0: 5}   ...      evict g1: q0.tail starts at 3 now, q1.tail at 1
"""

from __future__ import annotations

from collections import deque
from struct import Struct

from broker.store.queue_state import QueueState

_GENERATIONS = 32
RECORD_OVERHEAD_BYTES = 48
"""What a record in memory costs beyond its bytes: the object's header, its slot in the list, rounding."""


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
        """Account for a flushed batch, and evict what no longer fits.

        Args:
            queues: those that the batch has records of, with their new `flushed_offset`.
            size: bytes of the batch.
            count: records of the batch.
        """
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
    """Read records that are in memory.

    Args:
        queue: the queue.
        offset: where to begin, in the queue's tail.
        max_n: most records.
        max_bytes: most bytes; the first record is returned also if it is longer.
        scan_records: most records to look at.
        tag_hashes: only records with one of these; None for all.

    Returns:
        The records back to back, their number, and the offset to go on from.
    """
    found: list[bytes] = []
    size = 0
    first = offset - queue.tail_base
    last = min(queue.end_offset - queue.tail_base, first + scan_records)
    for record in queue.tail[first:last]:
        if tag_hashes is None or _unpack_tag_hash(record, _TAG_HASH_AT)[0] in tag_hashes:
            size += len(record)
            if found and size > max_bytes:
                break
            found.append(record)
            if len(found) == max_n:
                offset += 1
                break
        offset += 1
    return b"".join(found), len(found), offset
