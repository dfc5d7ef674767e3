r"""Messages as RocketMQ's clients send and read them: properties, batches, stored messages, ids. Pure.

RocketMQ: MessageDecoder. Properties are a text, `name \x01 value \x02` repeated. A stored message:

    total size, magic, CRC of the body, queue id, flag, queue offset, physical offset, sysFlag, born time, born host,
    stored time, store host, reconsume times, offset of a prepared transaction, body, topic, properties

It is written in its first version, with IPv4 hosts, because that is what every client reads.

A broker here has no physical offsets that clients could use: `physical_offset` packs topic id, queue and offset into 63
bits, so it identifies the message, after a restart as well.

    >>> physical_offset(1, 2, 3), split_physical_offset(physical_offset(1, 2, 3))
    (562949953421315, (1, 2, 3))
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple

from model.errors import InvalidParameter, MessageIllegal
from model.limits import MAX_BATCH_MESSAGES, MAX_BODY_BYTES
from remoting.command import short_text

TAGS, KEYS, UNIQ_KEY = "TAGS", "KEYS", "UNIQ_KEY"
RETRY_TOPIC, ORIGIN_MESSAGE_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"
DELAY, TIMER_DELIVER_MS = "DELAY", "TIMER_DELIVER_MS"
TIMER_DELAY_MS, TIMER_DELAY_SEC = "TIMER_DELAY_MS", "TIMER_DELAY_SEC"
TRANSACTION_PREPARED, PRODUCER_GROUP = "TRAN_MSG", "PGROUP"
CHECK_IMMUNITY_S = "CHECK_IMMUNITY_TIME_IN_SECONDS"
HALF_QUEUE = 0
"""The queue of the half topic that has all half messages."""

COMPRESSED = 0x1
TRANSACTION_BITS = 0xC
_COMPRESSION_BITS = 0x700
_ZLIB = (0, 0x300)
MAX_PROPERTIES_BYTES = 32_767
"""The length of the properties is a signed number of 16 bits. RocketMQ: putMsg checks for Short.MAX_VALUE."""

_MAGIC, _MAGIC_2 = 0xDAA320A7, 0xDAA320AB
"""Magic numbers of a stored message, with one and with two bytes for the length of its topic."""
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20
_BEFORE_HOSTS = struct.Struct(">IIIIIQQIQ")  # a stored message up to its born time
_FIXED = struct.Struct(">IIIIIQQIQ4sIQ4sIIQI")  # up to the length of its body, with IPv4 hosts
_BATCH_ENTRY = struct.Struct(">IIIII")  # total size, magic, CRC, flag, length of the body
_NAME_VALUE_SEPARATOR, _PROPERTY_SEPARATOR = "\x01", "\x02"
_OFFSET_BITS, _QUEUE_BITS, _TOPIC_BITS = 36, 13, 14
_PHYSICAL_DIGITS = 16
"""Hexadecimal digits of the physical offset, which ends a message id that a broker assigned."""


# --- properties ------------------------------------------------------------------------------------------------------


def parse_properties(text: str) -> dict[str, str]:
    """Split a text of properties; the last separator may be missing, because Java 4 leaves it out."""
    properties: dict[str, str] = {}
    for pair in text.split(_PROPERTY_SEPARATOR):
        name, separator, value = pair.partition(_NAME_VALUE_SEPARATOR)
        if separator and name and value:
            properties[name] = value
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """Join properties; a property is left out if a part of it is empty or contains a separator."""
    return "".join(
        f"{name}{_NAME_VALUE_SEPARATOR}{value}{_PROPERTY_SEPARATOR}"
        for name, value in properties.items()
        if name and value and not _breaks(name) and not _breaks(value)
    )


def _breaks(text: str) -> bool:
    return _NAME_VALUE_SEPARATOR in text or _PROPERTY_SEPARATOR in text


# --- bodies ----------------------------------------------------------------------------------------------------------


def decompressed_body(body: bytes, sys_flag: int) -> bytes:
    """The body as its producer gave it to the client, which compresses a long one.

    Raises:
        MessageIllegal: the body is not zlib, or it is too long.
    """
    if not sys_flag & COMPRESSED:
        return body
    if sys_flag & _COMPRESSION_BITS not in _ZLIB:
        raise MessageIllegal("the body is compressed by LZ4 or Zstandard: use ZLIB (rocketmq.message.compressType)")
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise MessageIllegal(f"the compressed body is damaged ({error})") from error
    if len(plain) > MAX_BODY_BYTES:
        raise MessageIllegal(f"the body has more than {MAX_BODY_BYTES} bytes uncompressed: split it")
    if not unpacking.eof:
        raise MessageIllegal("the compressed body is cut off")
    return plain


class BatchEntry(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: dict[str, str]


def batch_entries(body: bytes) -> Iterator[BatchEntry]:
    """Split the body of a batch.

    Raises:
        MessageIllegal: while iterating: the batch is malformed, or has too many messages.
    """
    entry_at, n = 0, 0
    while entry_at < len(body):
        n += 1
        if n > MAX_BATCH_MESSAGES:
            raise MessageIllegal(f"a batch has at most {MAX_BATCH_MESSAGES} messages: split it")
        try:
            size, _, _, flag, body_length = _BATCH_ENTRY.unpack_from(body, entry_at)
            start = entry_at + _BATCH_ENTRY.size
            (length,) = struct.unpack_from(">H", body, start + body_length)
            properties = start + body_length + 2
            if properties + length != entry_at + size or entry_at + size > len(body):
                raise ValueError(f"its lengths do not add up to {size}")
            text = body[properties : properties + length].decode()
        except (struct.error, ValueError) as error:
            raise MessageIllegal(f"message {n} of the batch is malformed: {error}") from error
        yield BatchEntry(flag, body[start : start + body_length], parse_properties(text))
        entry_at += size


def batch_entry(body: bytes, properties: Mapping[str, str]) -> bytes:
    """One message of a batch, as `batch_entries` reads it."""
    text = _truncated_properties(properties)
    size = _BATCH_ENTRY.size + len(body) + 2 + len(text)
    return b"".join((_BATCH_ENTRY.pack(size, 0, 0, 0, len(body)), body, struct.pack(">H", len(text)), text))


# --- ids -------------------------------------------------------------------------------------------------------------


def physical_offset(topic_id: int, queue_id: int, offset: int) -> int:
    """A number of 63 bits that identifies a message; 0 if the parts do not fit."""
    if topic_id >> _TOPIC_BITS or queue_id >> _QUEUE_BITS or offset < 0 or offset >> _OFFSET_BITS:
        return 0
    return (topic_id << _QUEUE_BITS | queue_id) << _OFFSET_BITS | offset


def split_physical_offset(physical: int) -> tuple[int, int, int]:
    """Topic id, queue id and offset of a physical offset."""
    queue = physical >> _OFFSET_BITS
    return queue >> _QUEUE_BITS, queue & (1 << _QUEUE_BITS) - 1, physical & (1 << _OFFSET_BITS) - 1


class Host(NamedTuple):
    """An IPv4 address and a port, as a message has them."""

    address: bytes
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> Host:
        """The address; 0.0.0.0 stands for names and for IPv6 addresses, which not every client can read."""
        try:
            return cls(IPv4Address(host).packed, port)
        except AddressValueError:
            return cls(bytes(4), port)


def offset_message_id(store: Host, physical: int) -> str:
    """The id that a broker assigns to a message: its place. RocketMQ: createMessageId."""
    return (store.address + struct.pack(">IQ", store.port, physical)).hex().upper()


def parse_physical_offset(message_id: str) -> int:
    """The physical offset in a message id that a broker assigned.

    Raises:
        InvalidParameter: the text is not such an id.
    """
    try:
        return int(message_id[-_PHYSICAL_DIGITS:], 16)
    except ValueError:
        raise InvalidParameter(f"{short_text(message_id)} is not a message id that a broker assigns") from None


NO_HOST = Host(bytes(4), 0)


class StoredMessage(NamedTuple):
    """A message in the answer to a pull."""

    topic: str
    queue_id: int
    offset: int
    physical: int
    body: bytes
    properties: Mapping[str, str]
    born_ms: int
    stored_ms: int
    store: Host
    times_delivered: int = 0
    flag: int = 0
    born: Host = NO_HOST


def encode_message(message: StoredMessage) -> bytes:
    """The bytes of a stored message."""
    topic = message.topic.encode()
    properties = _truncated_properties(message.properties)
    fixed = _FIXED.pack(
        _FIXED.size + len(message.body) + 1 + len(topic) + 2 + len(properties),
        _MAGIC,
        zlib.crc32(message.body) & 0x7FFFFFFF,
        message.queue_id,
        message.flag & 0xFFFFFFFF,
        message.offset,
        message.physical,
        0,
        message.born_ms,
        *message.born,
        message.stored_ms,
        *message.store,
        message.times_delivered,
        0,
        len(message.body),
    )
    return b"".join((fixed, message.body, bytes((len(topic),)), topic, struct.pack(">H", len(properties)), properties))


def _truncated_properties(properties: Mapping[str, str]) -> bytes:
    """The encoded properties, without those beyond `MAX_PROPERTIES_BYTES`: our own messages may have longer ones."""
    encoded = properties_text(properties).encode(errors="replace")
    if len(encoded) <= MAX_PROPERTIES_BYTES:
        return encoded
    return encoded[: encoded.rfind(_PROPERTY_SEPARATOR.encode(), 0, MAX_PROPERTIES_BYTES) + 1]


def decode_messages(data: bytes) -> Iterator[StoredMessage]:
    """Read stored messages from answers of RocketMQ's servers; bodies are decompressed.

    Raises:
        MessageIllegal: while iterating: a message is malformed, or not compressed by zlib.
    """
    record_at = 0
    while record_at < len(data):
        try:
            size, magic, _, queue_id, flag, offset, physical, sys_flag, born_ms = _BEFORE_HOSTS.unpack_from(
                data, record_at
            )
            if magic not in (_MAGIC, _MAGIC_2) or not _BEFORE_HOSTS.size < size <= len(data) - record_at:
                raise ValueError(f"a message of {size} bytes begins with {magic:08x}")
            born, position = _host(data, record_at + _BEFORE_HOSTS.size, bool(sys_flag & _BORN_IPV6))
            (stored_ms,) = struct.unpack_from(">Q", data, position)
            store, position = _host(data, position + 8, bool(sys_flag & _STORE_IPV6))
            times, _, length = struct.unpack_from(">IQI", data, position)
            body, position = _part(data, position + 16, length, record_at + size)
            width = ">H" if magic == _MAGIC_2 else ">B"
            (length,) = struct.unpack_from(width, data, position)
            topic, position = _part(data, position + struct.calcsize(width), length, record_at + size)
            (length,) = struct.unpack_from(">H", data, position)
            text, position = _part(data, position + 2, length, record_at + size)
            properties = parse_properties(text.decode())
            read = (topic.decode(), queue_id, offset, physical, decompressed_body(body, sys_flag), properties)
        except (struct.error, ValueError) as error:
            raise MessageIllegal(f"a message of RocketMQ is malformed: {error}") from error
        yield StoredMessage(*read, born_ms, stored_ms, store, times, flag, born)
        record_at += size


def _host(data: bytes, position: int, is_ipv6: bool) -> tuple[Host, int]:
    """A host and the position after it; an IPv6 address is read as 0.0.0.0."""
    length = 16 if is_ipv6 else 4
    (port,) = struct.unpack_from(">I", data, position + length)
    return Host(bytes(4) if is_ipv6 else data[position : position + 4], port), position + length + 4


def _part(data: bytes, position: int, length: int, end: int) -> tuple[bytes, int]:
    if length > end - position:
        raise ValueError(f"a length of {length} is announced where {end - position} bytes are left")
    return data[position : position + length], position + length
