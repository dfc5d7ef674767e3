"""Stored records to messages: the only place that decodes a payload, and the hot path of every consumer.

One msgpack unpacker walks over the whole body: it hands out each record's binary header as bytes and decodes the
payload behind it in place. Slicing every payload out and decoding it by itself takes half as long again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import msgpack

from model.message import MessageExt
from model.message_queue import MessageQueue
from model.record import CONSUMED, HEADER_BYTES, RecordCorrupt

M = TypeVar("M", bound=MessageExt)

_unpack_header = CONSUMED.unpack
_new_tuple = tuple.__new__
_FIELDS = len(MessageExt._fields)


def decode_messages(queue: MessageQueue, body: bytes) -> list[MessageExt]:
    """Decode the body of a pull; see `decode_as`."""
    return decode_as(MessageExt, queue, body)


def decode_as(kind: type[M], queue: MessageQueue, body: bytes) -> list[M]:
    """Decode records.

    Args:
        kind: of the messages that are made.
        queue: the queue that they are of.
        body: stored records back to back.

    Returns:
        The messages, in offset order.

    Raises:
        RecordCorrupt: the body is not whole records with whole payloads.
    """
    messages: list[M] = []
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(body)), read_size=1, use_list=False)
    unpacker.feed(body)
    read_bytes, tell, add = unpacker.read_bytes, unpacker.tell, messages.append
    unpack: Callable[[], Any] = unpacker.unpack
    position, end = 0, len(body)
    try:
        while position < end:
            length, offset, stored_ms, _, _, times_delivered = _unpack_header(read_bytes(HEADER_BYTES))
            position += length
            fields = (queue, offset, stored_ms, times_delivered) + unpack()  # noqa: RUF005 - half the time of unpacking
            if len(fields) != _FIELDS:
                raise RecordCorrupt(f"record {offset} of {queue} has {len(fields)} fields instead of {_FIELDS}")
            # The constructor of a named tuple is Python code and costs as much as decoding the payload.
            add(_new_tuple(kind, fields))
        if tell() != end or position != end:
            raise RecordCorrupt(f"{queue}: the records that were pulled do not fill their {end} bytes")
    except (ValueError, TypeError, struct.error, msgpack.UnpackException) as error:
        raise RecordCorrupt(f"{queue}: what was pulled is not whole records ({error})") from error
    return messages
