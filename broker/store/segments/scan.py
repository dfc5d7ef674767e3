"""Rebuilds the index of a segment from its bytes alone: every whole record, and where the damage is. Pure.

A record counts only with a matching checksum. Where one does not match, the scan looks for the next place at which a
record does, so one flipped bit costs one record and not the rest of the segment. Damage that nothing valid follows is a
torn tail: the write that a crash interrupted.

    |head|r0|r1|r2?|r3|r4|half of r5        valid: r0 r1 r3 r4    damaged: r2's bytes    valid_bytes: end of r4

Four kinds of records belong to the store itself, and make the log enough to rebuild everything. They are ordinary
records with `CONTROL_FLAG`; they belong to no queue, and no reader gets them.

- A **queue table** is at the start of each segment: every queue with the offset of its next message. So a segment can
  be read without the ones before it, which may have been deleted, and a queue without messages keeps its offsets.
- **Topic dropped**: the queues of a topic end here, and do not come back when the log is scanned.
- **Topic named**: the name of a topic id, in bytes that the store does not decode. A scan skips it; a broker that has
  lost its metadata reads it (`find_topic_names`).
- **Epochs**: which replicas of a set wrote the log (`epochs.py`). A scan skips it, as it skips kinds that a later
  version adds.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from broker.store.segments.index import ENTRY, ENTRY_BYTES, LogKey, MemoryIndex
from broker.store.segments.index_file import Read
from model.record import CONTROL_FLAG, CRC_FROM, HEADER, HEADER_BYTES, encode_record

QUEUE_TABLE = CONTROL_FLAG | 1
TOPIC_DROPPED = CONTROL_FLAG | 2
TOPIC_NAMED = CONTROL_FLAG | 3

_TABLE_ROW = struct.Struct(">IIQ")
_TABLE_ROWS_PER_RECORD = 65_536


def encode_queue_table(ends: dict[LogKey, int], stored_ms: int) -> bytes:
    """Return the records that begin a segment; at least one, also without queues."""
    packed = b"".join([_TABLE_ROW.pack(*key, end) for key, end in ends.items()])
    step = _TABLE_ROWS_PER_RECORD * _TABLE_ROW.size
    parts = [packed[start : start + step] for start in range(0, len(packed), step)] or [b""]
    return b"".join([encode_record(0, 0, 0, stored_ms, 0, QUEUE_TABLE, 0, part) for part in parts])


def decode_queue_table(payload: bytes) -> Iterator[tuple[LogKey, int]]:
    """Yield (queue, offset of its next message) from the payload of one queue table record."""
    for topic_id, queue_id, end in _TABLE_ROW.iter_unpack(payload):
        yield (topic_id, queue_id), end


def encode_topic_named(topic_id: int, stored_ms: int, name: bytes) -> bytes:
    """Return the record that has the name of a topic id."""
    return encode_record(topic_id, 0, 0, stored_ms, 0, TOPIC_NAMED, 0, name)


def encode_topic_dropped(topic_id: int, stored_ms: int) -> bytes:
    """Return the record that ends the queues of a topic."""
    return encode_record(topic_id, 0, 0, stored_ms, 0, TOPIC_DROPPED, 0, b"")


BLOCK_BYTES = 1024 * 1024
MAX_RECORD_BYTES = 2**24 - 1
"""The store writes no longer record, so the first byte of each is zero: a hint for finding one in damaged bytes."""

# The shape of every header: a length that is not zero and below 2**24; offset and time below 2**48. Zeroed blocks,
# which a file has after a loss of power, do not match, so they are passed over at the speed of the expression.
_HEADER_SHAPE = re.compile(rb"\x00(?!\x00\x00\x00).{15}\x00\x00.{6}\x00\x00", re.DOTALL)
_SHAPE_BYTES = 26

_unpack_header = HEADER.unpack_from
_pack_entry = ENTRY.pack

_Found = tuple[int, int, int, int, int, int, int, int, bytes]
"""position, length, topic_id, queue_id, queue_offset, stored_ms, tag_hash, flags, payload (empty unless asked for)."""


@dataclass(slots=True, kw_only=True)
class Scan:
    """Result of a scan.

    Attributes:
        valid_bytes: end of the last whole record.
        record_count: records found, without the control records of the store.
        first_stored_ms, last_stored_ms: of the records found, 0 without any.
        damaged_bytes: bytes before `valid_bytes` that are not records.
    """

    index: MemoryIndex
    valid_bytes: int = 0
    record_count: int = 0
    first_stored_ms: int = 0
    last_stored_ms: int = 0
    damaged_bytes: int = 0


def scan_segment(read: Read, size: int, ends_before: dict[LogKey, int] | None) -> Scan:
    """Rebuild the index of a segment from the first `size` bytes of its file.

    Missing offsets between found ones are holes in the rows. `ends_before` is where the queues end in the segment
    before, for the case that the queue table is damaged; None if there is no such segment. Raises what `read` does.
    """
    scan = Scan(index=MemoryIndex(ends_before or {}))
    rows = scan.index.rows
    queues_known = ends_before is not None
    for position, length, topic_id, queue_id, offset, stored_ms, tag_hash, flags, payload in walk(read, size):
        scan.damaged_bytes += position - scan.valid_bytes
        scan.valid_bytes = position + length
        if flags & CONTROL_FLAG:
            if flags == QUEUE_TABLE:
                if position == 0:
                    rows.clear()
                    queues_known = True
                for key, end in decode_queue_table(payload):
                    scan.index.add_row(key, end)
            elif flags == TOPIC_DROPPED:
                scan.index.drop_topic(topic_id)
            continue
        key = (topic_id, queue_id)
        row = rows.get(key)
        if row is None:
            row = scan.index.add_row(key, 0 if queues_known else offset)
        missing = offset - row.first_offset - len(row.entries) // ENTRY_BYTES
        if missing < 0:
            # A second record with this offset: the first one is kept, which every reader so far has got.
            scan.damaged_bytes += length
            continue
        if missing:
            scan.index.add_holes(row, missing, scan.last_stored_ms or stored_ms)
        row.entries += _pack_entry(position, length, tag_hash, stored_ms)
        scan.record_count += 1
        if stored_ms > scan.last_stored_ms:
            scan.last_stored_ms = stored_ms
            scan.first_stored_ms = scan.first_stored_ms or stored_ms
    return scan


class Whole(NamedTuple):
    """The end of the records before the first damage, and of the last whole record, which may be behind damage."""

    whole_bytes: int
    valid_bytes: int


def measure(read: Read, size: int) -> Whole:
    """Find where the first `size` bytes of a segment are damaged, without an index. Raises what `read` does."""
    whole = valid = 0
    for position, length, *_ in walk(read, size):
        if position == whole == valid:
            whole += length
        valid = position + length
    return Whole(whole, valid)


def walk(read: Read, size: int, position: int = 0, *, with_payloads: bool = False) -> Iterator[_Found]:
    """Yield every whole record in the first `size` bytes of a segment; the bytes between two of them are damaged.

    Begins at `position`, the start of a record. Without `with_payloads`, only the store's own records have their
    payload. Raises what `read` does.
    """
    block, base = b"", 0
    view = memoryview(block)
    while size - position >= HEADER_BYTES:
        start = position - base
        needed = HEADER_BYTES
        if start + needed <= len(block):
            length, crc, topic_id, queue_id, offset, stored_ms, tag_hash, flags, _ = _unpack_header(block, start)
            if HEADER_BYTES <= length <= MAX_RECORD_BYTES and length <= size - position:
                needed = length
                stop = start + length
                if stop <= len(block) and crc32(view[start + CRC_FROM : stop]) == crc:
                    payload = block[start + HEADER_BYTES : stop] if with_payloads or flags & CONTROL_FLAG else b""
                    yield position, length, topic_id, queue_id, offset, stored_ms, tag_hash, flags, payload
                    position += length
                    continue
        if start + needed > len(block):
            base, block = position, read(max(BLOCK_BYTES, needed), position)
            view = memoryview(block)
            if len(block) >= min(needed, size - position):
                continue
            return
        # Not a record. Go to the next place that looks like one; near the end of the block, read on and look again.
        shape = _HEADER_SHAPE.search(block, start + 1)
        position = base + shape.start() if shape else max(position + 1, base + len(block) - _SHAPE_BYTES + 1)


def read_queue_table(read: Read, size: int) -> dict[LogKey, int]:
    """Return the queue table at the start of a segment: the next offset of each queue, from its undamaged records."""
    ends: dict[LogKey, int] = {}
    for _, _, _, _, _, _, _, flags, payload in walk(read, size):
        if flags != QUEUE_TABLE:
            break
        ends.update(decode_queue_table(payload))
    return ends


def find_topic_names(read: Read, size: int, topic_ids: Collection[int]) -> dict[int, bytes]:
    """Return topic id -> name from the first `size` bytes of a segment; of two names of one id, the newer."""
    return {
        topic_id: payload
        for _, _, topic_id, _, _, _, _, flags, payload in walk(read, size)
        if flags == TOPIC_NAMED and topic_id in topic_ids
    }
