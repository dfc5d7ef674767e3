"""Decodes stored records to messages: the only place that decodes a payload, and the hot path of every consumer.

One msgpack unpacker walks over the whole body: it returns each record's binary header as bytes and decodes the payload
after it in place. Slicing every payload out and decoding it separately takes 1.5 times as long.

A broker does not look into payloads, so any client can store one that is not a message. Its record is whole, and each
pull returns the same bytes; damaged bytes may be whole in the next pull. Only when a body does not decode does this
module distinguish the two: record by record, with checksums.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgpack

from model.message import NO_PROPERTIES, MessageExt, Properties
from model.message_queue import MessageQueue
from model.record import CONSUMED, HEADER_BYTES, RecordCorrupt, iter_records

M = TypeVar("M", bound=MessageExt)

_unpack_header = CONSUMED.unpack
_new_tuple = tuple.__new__
_TYPES = str, bytes, str, tuple, dict, int, str
"""The types of the fields of a payload, in their order. Consumers rely on them, and on the first key being a string."""
_KEYS = 3


class Undecodable(NamedTuple):
    """A whole record whose payload is not a message, because no producer of this project stored it.

    `position` is the number of records before it in the decoded body.
    """

    queue: MessageQueue
    offset: int
    reason: str
    position: int


def message_id_of(payload: bytes) -> str:
    """The id of the message in a payload; empty if the payload is not a message."""
    try:
        fields: Any = msgpack.unpackb(payload)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return ""
    is_message = isinstance(fields, list) and len(fields) == len(_TYPES) and isinstance(fields[-1], str)
    return str(fields[-1]) if is_message else ""


def decode_messages(queue: MessageQueue, body: bytes, undecodable: list[Undecodable] | None = None) -> list[MessageExt]:
    """Decode the body of a pull; see `decode_as`."""
    return decode_as(MessageExt, queue, body, undecodable)


def decode_as(kind: type[M], queue: MessageQueue, body: bytes, undecodable: list[Undecodable] | None = None) -> list[M]:
    """Decode stored records of a queue, back to back in `body`, to messages of a kind, in offset order.

    The list `undecodable` gets the whole records that the result leaves out because their payloads are not messages;
    without a list they count as damaged.

    Raises:
        RecordCorrupt: the body is not whole records, or one has a payload that is not a message.
    """
    messages: list[M] = []
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(body)), read_size=1, use_list=False)
    unpacker.feed(body)
    read_bytes, tell, add = unpacker.read_bytes, unpacker.tell, messages.append
    unpack: Callable[[], Any] = unpacker.unpack
    position, end = 0, len(body)
    try:
        while position < end:
            length, offset, stored_ms, _, _, times = _unpack_header(read_bytes(HEADER_BYTES))
            topic, data, tags, keys, properties, born_ms, message_id = unpack()
            position += length
            # Checked after each record: a payload that runs into the next record could forge its header. Each type is
            # checked by itself, which costs a twentieth of the whole; comparing with `_TYPES` costs a half.
            if not (
                tell() == position
                and topic.__class__ is tags.__class__ is message_id.__class__ is str
                and data.__class__ is bytes
                and keys.__class__ is tuple
                and (not keys or keys[0].__class__ is str)
                and properties.__class__ is dict
                and born_ms.__class__ is int
            ):
                raise ValueError(f"record {offset} is not exactly a message")
            properties = Properties(properties) if properties else NO_PROPERTIES
            # The constructor of a named tuple is Python code and costs as much as decoding the payload.
            fields = (queue, offset, stored_ms, times, topic, data, tags, keys, properties, born_ms, message_id)
            add(_new_tuple(kind, fields))
    except (ValueError, TypeError, struct.error, msgpack.UnpackException) as error:
        if undecodable is not None:
            return _decode_each(kind, queue, body, undecodable)
        raise RecordCorrupt(f"{queue}: the pulled bytes are not whole records ({error})") from error
    return messages


def decode_or_keep(queue: MessageQueue, body: bytes) -> list[tuple[MessageExt, str]]:
    """Decode stored records as `decode_messages` does, and keep each whole record whose payload is not a message.

    For tools that show what is stored. Such a record becomes a message without id, tag, keys and properties, whose body
    is the payload; the text beside it describes the defect, and is empty for a real message.

    Raises:
        RecordCorrupt: the body is not whole records.
    """
    try:
        return [(message, "") for message in decode_messages(queue, body)]
    except RecordCorrupt:
        return _decode_or_keep_each(MessageExt, queue, body)


def _decode_each(kind: type[M], queue: MessageQueue, body: bytes, undecodable: list[Undecodable]) -> list[M]:
    """Decode a body in which something is wrong, one record after the other."""
    messages: list[M] = []
    for position, (message, reason) in enumerate(_decode_or_keep_each(kind, queue, body)):
        if reason:
            undecodable.append(Undecodable(queue, message.offset, reason, position))
        else:
            messages.append(message)
    return messages


def _decode_or_keep_each(kind: type[M], queue: MessageQueue, body: bytes) -> list[tuple[M, str]]:
    records: list[tuple[M, str]] = []
    try:
        for record in iter_records(body, check_crc=True):
            reason = ""
            try:
                fields = _fields_of(record.payload)
            except (ValueError, TypeError, msgpack.UnpackException) as error:
                reason = str(error) or "not msgpack"
                fields = (queue.topic, record.payload, "", (), NO_PROPERTIES, record.stored_ms, "")
            common_fields = (queue, record.queue_offset, record.stored_ms, record.times_delivered)
            records.append((_new_tuple(kind, common_fields + fields), reason))
    except RecordCorrupt as error:
        raise RecordCorrupt(f"{queue}: the pulled bytes are not whole records ({error})") from error
    return records


def _fields_of(payload: bytes) -> tuple[Any, ...]:
    """Return the fields of a payload; raises the errors that `_decode_each` catches unless it is exactly a message."""
    fields = msgpack.unpackb(payload, use_list=False)
    if (
        type(fields) is not tuple
        or tuple(map(type, fields)) != _TYPES
        or type(next(iter(fields[_KEYS]), "")) is not str
    ):
        raise ValueError("its fields are not the fields of a message")
    topic, body, tags, keys, properties, born_ms, message_id = fields
    return topic, body, tags, keys, Properties(properties), born_ms, message_id
