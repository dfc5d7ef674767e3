"""Records that the store writes for itself: what makes the log enough to rebuild everything.

- A **queue table** stands at the start of each segment: every queue with the offset of its next message. So a segment
  can be read without the ones before it, which may have been deleted, and a queue without messages keeps its place.
- **Topic dropped**: the queues of a topic end here, and do not come back when the log is scanned.

Both are ordinary records with `CONTROL_FLAG`; they belong to no queue and no reader ever gets them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from broker.store.segments.index import QueueKey
from model.record import CONTROL_FLAG, encode_record

QUEUE_TABLE = CONTROL_FLAG | 1
TOPIC_DROPPED = CONTROL_FLAG | 2

_TABLE_ROW = struct.Struct(">IIQ")
_TABLE_ROWS_PER_RECORD = 65_536


def encode_queue_table(ends: dict[QueueKey, int], stored_ms: int) -> bytes:
    """Return the records that begin a segment; at least one, also without queues."""
    packed = b"".join([_TABLE_ROW.pack(*key, end) for key, end in ends.items()])
    step = _TABLE_ROWS_PER_RECORD * _TABLE_ROW.size
    parts = [packed[at : at + step] for at in range(0, len(packed), step)] or [b""]
    return b"".join([encode_record(0, 0, 0, stored_ms, 0, QUEUE_TABLE, 0, part) for part in parts])


def decode_queue_table(payload: bytes) -> Iterator[tuple[QueueKey, int]]:
    """Yield (queue, offset of its next message) from the payload of one queue table record."""
    for topic_id, queue_id, end in _TABLE_ROW.iter_unpack(payload):
        yield (topic_id, queue_id), end


def encode_topic_dropped(topic_id: int, stored_ms: int) -> bytes:
    """Return the record that ends the queues of a topic."""
    return encode_record(topic_id, 0, 0, stored_ms, 0, TOPIC_DROPPED, 0, b"")
