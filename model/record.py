"""The stored record: a broker writes it to its log and sends it to consumers, which decode it.

A record is a fixed big-endian header and the producer's payload bytes, which only the consumer decodes. The broker
wraps a payload once, on the way in; a pull answers with stored records back to back, exactly as they are in the log.

    offset  field            type  meaning
    0       length           u32   bytes of the whole record, header included
    4       crc              u32   CRC-32 of everything after this field
    8       topic_id         u32   number of the topic in its broker; never used again after the topic is deleted
    12      queue_id         u32
    16      queue_offset     u64
    24      stored_ms        u64   wall clock of the broker, milliseconds
    32      tag_hash         i32   hash of the tag, so that a broker can filter without decoding
    36      flags            u16   bits 0-14 are the broker's; bit 15 marks a record of the store itself, never served
    38      times_delivered  u16   earlier failed deliveries (RocketMQ: reconsumeTimes)
    40      payload

`topic_id` and `queue_id` are stored with each record so that the log alone can rebuild the queue indexes.

    >>> body = encode_record(1, 0, 7, 1_700_000_000_000, 0, 0, 0, b"hello")
    >>> [(record.queue_offset, record.payload) for record in iter_records(body)]
    [(7, b'hello')]
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from model.errors import ServerError

HEADER = struct.Struct(">IIIIQQiHH")
"""All nine fields, in the order of the table above."""
HEADER_BYTES = HEADER.size
CRC_FROM = 8
"""The checksum covers a record from here to its end."""
SINK_FLAG = 0x0001
"""Set in records of a sink's batch that was published. A broker that was killed while it appended such a batch counts
the records that have the flag, and appends the others.
"""
CONTROL_FLAG = 0x8000
"""Set in records that a store writes for itself."""
MAX_TIMES_DELIVERED = 0xFFFF

_PREFIX = struct.Struct(">II")
CONSUMED = struct.Struct(">I12xQQiHH")
"""The six fields that a consumer needs; it knows the topic and the queue, because it asked for them."""

_pack_prefix = _PREFIX.pack
_pack_after_crc = struct.Struct(">IIQQiHH").pack
_unpack_prefix = _PREFIX.unpack_from
_unpack_header = HEADER.unpack_from
_unpack_consumed = CONSUMED.unpack_from
_new_tuple = tuple.__new__


class FlushMode(StrEnum):
    """How durable a record is when its send is answered; `docs/storage.md` has the table. RocketMQ: FlushDiskType."""

    ASYNC = "async"
    """Written to the file: it survives the process, and a loss of power 0.2 s later. RocketMQ: ASYNC_FLUSH."""
    SYNC = "sync"
    """On the disk itself: it survives a loss of power. RocketMQ: SYNC_FLUSH."""


class RecordCorrupt(ServerError):
    """A checksum or a length of a record is wrong. A second read may find the record whole."""


class RecordTruncated(RecordCorrupt):
    """The bytes end inside a record."""


class StoredRecord(NamedTuple):
    """One decoded record; the module header describes its fields."""

    queue_offset: int
    stored_ms: int
    tag_hash: int
    flags: int
    times_delivered: int
    payload: bytes


def encode_record(
    topic_id: int,
    queue_id: int,
    queue_offset: int,
    stored_ms: int,
    tag_hash: int,
    flags: int,
    times_delivered: int,
    payload: bytes,
) -> bytes:
    """Wrap a payload in the record header, and return the record, `HEADER_BYTES` longer than the payload.

    Arguments are positional, unlike elsewhere: a broker calls this once per message, and keywords would cost a tenth.

    Raises:
        struct.error: a number is out of its range; a bug of the caller.
    """
    covered = _pack_after_crc(topic_id, queue_id, queue_offset, stored_ms, tag_hash, flags, times_delivered) + payload
    return _pack_prefix(len(covered) + CRC_FROM, crc32(covered)) + covered


def iter_records(buffer: bytes, *, check_crc: bool = False) -> Iterator[StoredRecord]:
    """Decode the body of a pull: records back to back.

    `check_crc` verifies each record's checksum too, which nearly doubles the cost per record. A broker verifies the
    records that it reads from its files, and TCP has a checksum of its own, so a consumer need not verify them again.

    Raises:
        RecordTruncated: while iterating: the buffer ends inside a record. Earlier records have been yielded.
        RecordCorrupt: while iterating: an impossible length, or a wrong checksum.
    """
    return _iter_checked(buffer) if check_crc else _iter_unchecked(buffer)


def _iter_unchecked(buffer: bytes) -> Iterator[StoredRecord]:
    start = 0
    end = len(buffer)
    while start < end:
        try:
            length, queue_offset, stored_ms, tag_hash, flags, times = _unpack_consumed(buffer, start)
        except struct.error:
            raise _truncated(start, end) from None
        stop = start + length
        if length < HEADER_BYTES or stop > end:
            raise _bad_length(start, end, length)
        # The constructor of a named tuple is Python code and costs as much as all the rest of this loop.
        yield _new_tuple(
            StoredRecord, (queue_offset, stored_ms, tag_hash, flags, times, buffer[start + HEADER_BYTES : stop])
        )
        start = stop


def _iter_checked(buffer: bytes) -> Iterator[StoredRecord]:
    # Not built from `_iter_unchecked` and `check_record`: one generator inside another more than doubles the cost.
    start = 0
    end = len(buffer)
    view = memoryview(buffer)
    while start < end:
        try:
            length, crc, _, _, queue_offset, stored_ms, tag_hash, flags, times = _unpack_header(buffer, start)
        except struct.error:
            raise _truncated(start, end) from None
        stop = start + length
        if length < HEADER_BYTES or stop > end:
            raise _bad_length(start, end, length)
        if crc32(view[start + CRC_FROM : stop]) != crc:
            raise _bad_crc(start)
        yield _new_tuple(
            StoredRecord, (queue_offset, stored_ms, tag_hash, flags, times, buffer[start + HEADER_BYTES : stop])
        )
        start = stop


def check_record(buffer: bytes | memoryview, start: int = 0) -> int:
    """Verify length and checksum of the record that begins at an index, and return the index after its last byte.

    Raises:
        RecordTruncated: the buffer ends inside the record.
        RecordCorrupt: an impossible length, or a wrong checksum.
    """
    end = len(buffer)
    if end - start < HEADER_BYTES:
        raise _truncated(start, end)
    length, crc = _unpack_prefix(buffer, start)
    stop: int = start + length
    if length < HEADER_BYTES or stop > end:
        raise _bad_length(start, end, length)
    if crc32(memoryview(buffer)[start + CRC_FROM : stop]) != crc:
        raise _bad_crc(start)
    return stop


def _truncated(start: int, end: int) -> RecordTruncated:
    return RecordTruncated(f"record at byte {start}: {end - start} bytes are left, a header has {HEADER_BYTES}")


def _bad_length(start: int, end: int, length: int) -> RecordCorrupt:
    if length < HEADER_BYTES:
        return RecordCorrupt(f"record at byte {start}: a length of {length} is less than a header of {HEADER_BYTES}")
    return RecordTruncated(f"record at byte {start}: {length} bytes long, but only {end - start} bytes are left")


def _bad_crc(start: int) -> RecordCorrupt:
    return RecordCorrupt(f"record at byte {start}: its checksum does not match; the bytes were damaged")
