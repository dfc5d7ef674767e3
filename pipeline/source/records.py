"""Unpacks pulled records one by one, and reports missing records and records that are not messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from model.decode import decode_or_keep
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.record import HEADER_BYTES, RecordCorrupt
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import HINT, MessagesLost, PulledRecords

logger = logging.getLogger(__name__)

HEADER_FIELDS = np.dtype(
    [
        ("length", ">u4"),
        ("crc", ">u4"),
        ("topic_id", ">u4"),
        ("queue_id", ">u4"),
        ("offset", ">u8"),
        ("stored_ms", ">u8"),
        ("tag_hash", ">i4"),
        ("flags", ">u2"),
        ("times_delivered", ">u2"),
    ]
)
assert HEADER_FIELDS.itemsize == HEADER_BYTES, "the table of model/record.py"
OFFSET_AT = 16
"""Position of the offset in a header."""

_FIRST_FIELD = MessageExt._fields.index("topic")


@dataclass(slots=True)
class Records:
    """Records of one queue, unpacked but not yet columns."""

    headers: list[bytes]
    payloads: list[Any]
    bodies: list[bytes]
    """Bodies of their pulls, for the bytes of payloads that are not messages."""

    def numbers(self) -> Any:
        """Return their headers as a structured array of numpy."""
        return np.frombuffer(b"".join(self.headers), HEADER_FIELDS)


def unpack_records(queue: MessageQueue, body: bytes, into: Records) -> None:
    """Unpack the body of a pull.

    Raises:
        RecordCorrupt: the body is not whole records with whole payloads.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(body)), read_size=1, use_list=False)
    unpacker.feed(body)
    read_bytes, tell = unpacker.read_bytes, unpacker.tell
    unpack: Callable[[], Any] = unpacker.unpack
    add_header, add_payload = into.headers.append, into.payloads.append
    end, first = len(body), len(into.headers)
    try:
        while tell() < end:
            add_header(read_bytes(HEADER_BYTES))
            add_payload(unpack())
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RecordCorrupt(f"{queue}: the pulled bytes are not whole records ({error})") from error
    lengths = np.frombuffer(b"".join(into.headers[first:]), HEADER_FIELDS)["length"]
    if int(lengths.sum(dtype=np.int64)) != end:
        raise RecordCorrupt(f"{queue}: the records that were pulled do not fill their {end} bytes")


def add_records(queue: MessageQueue, end: int, pulled: PulledRecords, into: Records, options: SourceOptions) -> None:
    """Unpack a pull, and report records that are missing from it because they are damaged."""
    first = len(into.headers)
    try:
        unpack_records(queue, pulled.body, into)
    except RecordCorrupt:
        del into.headers[first:], into.payloads[first:]
        _unpack_each(queue, pulled.body, into)
    into.bodies.append(pulled.body)
    if not options.is_filtered and len(into.headers) - first < pulled.end - pulled.start:
        offsets = np.frombuffer(b"".join(into.headers[first:]), HEADER_FIELDS)["offset"].tolist()
        report_damaged(queue, end, pulled, offsets, options)


def _unpack_each(queue: MessageQueue, body: bytes, into: Records) -> None:
    """Unpack a body record by record; a payload that is not a message becomes None, of which no column can be made."""
    kept = decode_or_keep(queue, body)
    into.payloads += [None if reason else message[_FIRST_FIELD:] for message, reason in kept]
    position = 0
    while position < len(body):
        into.headers.append(body[position : position + HEADER_BYTES])
        position += int.from_bytes(body[position : position + 4], "big")


def report_no_message(queue: MessageQueue, offset: int, reason: object, options: SourceOptions) -> None:
    """Report a record that is not a message."""
    effect = "its row has the bytes as body" if options.tags is None else "it is skipped, because it has no tag"
    logger.warning(
        "queue %s: the record at offset %d is not a message (%s), and was not stored by a producer of this project: %s",
        *(queue, offset, reason, effect),
    )


def report_damaged(
    queue: MessageQueue, end: int, pulled: PulledRecords, offsets: Sequence[int], options: SourceOptions
) -> None:
    """Report records missing from a pull without tags: a broker skips records that are damaged on its disk.

    `offsets` has the offsets of the records of the pull; offsets from `end` on are ignored.

    Raises:
        MessagesLost: a record is missing, and `fail_on_data_loss` is set.
    """
    last = min(end, pulled.end)
    readable = [offset for offset in offsets if offset < last]
    n_lost = last - pulled.start - len(readable)
    if n_lost <= 0:
        return
    text = f"queue {queue}: {n_lost} of the messages from offset {pulled.start} to before {last} are damaged"
    if options.fail_on_data_loss:
        raise MessagesLost(f"{text} or missing on the disk of their broker, whose log lists them; {HINT}")
    logger.warning("%s: skipping them", text)
