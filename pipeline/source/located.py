"""Finds the fields of messages in pulled bytes with numpy, without decoding each message: five times as fast.

Nearly all messages have the same form: payloads of seven fields, with few keys and properties. The position of each
field follows from the lengths before it, so the same field of all records is read in one step. Keys and properties are
read in turns, the first of all messages that have one, then the second, and so on:

    97 | a6 orders | c4 64 body.. | a3 red | 91 a2 k1 | 80 | cf born_ms | b8 message id
    array  topic      bin8           tag      1 key     {}   uint64       the end has to be that of the record

If a single record of a batch has another form, `columns.py` decodes the batch record by record.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from model.record import HEADER_BYTES
from pipeline.arrow_arrays import bits, numbers

_LENGTH_AT = struct.Struct(">I").unpack_from
_SEVEN, _FIXARRAY, _UINT64, _SPACE = 0x97, 0x90, 0xCF, 0x20
_BIN8, _BIN32, _STR8, _STR32, _FIXSTR, _FIXMAP, _NOT_ASCII = 0xC4, 0xC6, 0xD9, 0xDB, 0xA0, 0x80, 0x80
_BORN_BYTES = 8


class LocatedProperties(NamedTuple):
    """The properties of messages, each name and value as a position and a length, by message.

    Attributes:
        counts: how many properties each message has.
    """

    counts: Any
    names: tuple[Any, Any]
    values: tuple[Any, Any]

    def only(self, is_wanted: Any) -> LocatedProperties:
        """Return the properties of the messages for which this array of bools is true."""
        of_wanted = np.repeat(is_wanted, self.counts)
        names, values = ((starts[of_wanted], lengths[of_wanted]) for starts, lengths in (self.names, self.values))
        return LocatedProperties(self.counts[is_wanted], names, values)


class LocatedFields(NamedTuple):
    """Fields of the messages in `data`, each as positions and lengths; the keys are in `keys_data`, with spaces."""

    data: bytes
    keys_data: bytes
    headers: Any
    body: tuple[Any, Any]
    tag: tuple[Any, Any]
    key: tuple[Any, Any]
    message_id: tuple[Any, Any]
    born_ms: Any
    properties: LocatedProperties

    def only(self, is_wanted: Any) -> LocatedFields:
        """Return the messages for which this array of bools is true."""
        body, tag, key, message_id = (
            (starts[is_wanted], lengths[is_wanted])
            for starts, lengths in (self.body, self.tag, self.key, self.message_id)
        )
        columns = {"headers": self.headers[is_wanted], "born_ms": self.born_ms[is_wanted]}
        properties = self.properties.only(is_wanted)
        return self._replace(**columns, body=body, tag=tag, key=key, message_id=message_id, properties=properties)


def record_starts(body: bytes) -> Any:
    """Return the position of each record of a pull; None if its bytes are not whole records."""
    end = len(body)
    if end < HEADER_BYTES:
        return None if end else np.zeros(0, np.int64)
    (first,) = _LENGTH_AT(body, 0)
    if first >= HEADER_BYTES and end % first == 0:
        # Usually all have the same length, which numpy checks in one step.
        lengths: Any = np.ndarray((end // first,), ">u4", body, 0, (first,))
        if (lengths == first).all():
            return np.arange(0, end, first)
    starts: list[int] = []
    position = 0
    while position <= end - HEADER_BYTES:
        starts.append(position)
        length = _LENGTH_AT(body, position)[0]
        if length < HEADER_BYTES:
            return None
        position += length
    return np.array(starts) if position == end else None


def read_headers(data: bytes, starts: Any, kind: Any) -> Any:
    """Return the headers of records as a structured array of this type."""
    return _fixed(np.frombuffer(data, np.uint8), starts, HEADER_BYTES).view(kind).reshape(-1)


def locate_fields(data: bytes, starts: Any, headers: Any) -> LocatedFields | None:
    """Find the fields of all messages; None if one of them has another form."""
    buffer = np.frombuffer(data, np.uint8)
    try:
        return _located(data, buffer, starts, headers)
    except (ValueError, IndexError):  # IndexError: lengths that lead beyond the last byte
        return None


def _located(data: bytes, buffer: Any, starts: Any, headers: Any) -> LocatedFields:
    positions = _after(buffer, starts + HEADER_BYTES, _SEVEN)
    topic = _text(buffer, positions)
    body = _binary(buffer, topic[0] + topic[1])
    tag = _text(buffer, body[0] + body[1])
    keys_data, key, positions = _keys(data, buffer, tag[0] + tag[1])
    properties, positions = _properties(data, buffer, positions)
    positions = _after(buffer, positions, _UINT64)
    born_ms = _fixed(buffer, positions, _BORN_BYTES).view(">u8").reshape(-1)
    message_id = _text(buffer, positions + _BORN_BYTES)
    # No length is negative, so this check ensures that all fields are within their records.
    if (message_id[0] + message_id[1] != starts + headers["length"]).any() or (born_ms >> np.uint64(63)).any():
        raise ValueError("a payload does not fill its record")
    return LocatedFields(data, keys_data, headers, body, tag, key, message_id, born_ms.astype(np.int64), properties)


def _fixed(buffer: Any, positions: Any, width: int) -> Any:
    """Return `width` bytes from each position, a row for each."""
    if len(positions) and int(positions.max()) + width > len(buffer):
        raise IndexError(width)
    windows = np.lib.stride_tricks.as_strided(buffer, (max(0, len(buffer) - width + 1), width), (1, 1), writeable=False)
    return windows[positions]


def _after(buffer: Any, positions: Any, kind: int) -> Any:
    if (buffer[positions] != kind).any():
        raise ValueError("a field is of another kind")
    return positions + 1


def _text(buffer: Any, positions: Any) -> tuple[Any, Any]:
    """Return the positions and lengths of the strings at these positions."""
    kinds = buffer[positions].astype(np.int64)
    is_long = (kinds >= _STR8) & (kinds <= _STR32)
    if (((kinds & 0xE0) != _FIXSTR) & ~is_long).any():
        raise ValueError("a field is not a string")
    if not is_long.any():
        return positions + 1, kinds & 0x1F
    widths = np.where(is_long, np.left_shift(1, np.maximum(kinds - _STR8, 0)), 0)
    return positions + 1 + widths, np.where(is_long, _lengths(buffer, positions, widths), kinds & 0x1F)


def _binary(buffer: Any, positions: Any) -> tuple[Any, Any]:
    """Return the positions and lengths of the byte strings at these positions."""
    kinds = buffer[positions].astype(np.int64)
    if ((kinds < _BIN8) | (kinds > _BIN32)).any():
        raise ValueError("a body is not a byte string")
    widths = np.left_shift(1, kinds - _BIN8)
    return positions + 1 + widths, _lengths(buffer, positions, widths)


def _lengths(buffer: Any, positions: Any, widths: Any) -> Any:
    """Return the numbers of these widths that follow the bytes at these positions."""
    lengths = np.zeros(len(positions), np.int64)
    for number in range(int(widths.max(initial=0))):
        more = number < widths
        lengths[more] = (lengths[more] << 8) | buffer[positions[more] + 1 + number]
    return lengths


def _properties(data: bytes, buffer: Any, positions: Any) -> tuple[LocatedProperties, Any]:
    """Return the properties of the maps at these positions, at most 15 in each, and the positions after the maps."""
    kinds = buffer[positions]
    if ((kinds & 0xF0) != _FIXMAP).any():
        raise ValueError("a message has more properties, or its properties are not a map")
    counts, positions = (kinds & 0x0F).astype(np.int64), positions + 1
    firsts = np.cumsum(counts) - counts  # of each message, in the arrays of all properties
    fields = np.zeros((4, int(counts.sum())), np.int64)
    for number in range(int(counts.max(initial=0))):
        more = number < counts
        for row in (0, 2):
            field = _text(buffer, positions[more])
            positions[more] = field[0] + field[1]
            fields[row : row + 2, firsts[more] + number] = field
            if int(positions.max()) > len(data) or gather_text(data, field, is_nullable=False) is None:
                raise ValueError("a property is longer than its pull, or not UTF-8")
    return LocatedProperties(counts, (fields[0], fields[1]), (fields[2], fields[3])), positions


def _keys(data: bytes, buffer: Any, positions: Any) -> tuple[bytes, tuple[Any, Any], Any]:
    """Return bytes with the keys of each message, separated by spaces, their positions, and the positions after them.

    Between two short keys is one byte, the length of the second, which a space replaces in a copy of the bytes.
    """
    kinds = buffer[positions]
    if ((kinds & 0xF0) != _FIXARRAY).any():
        raise ValueError("a message has more keys, or its keys are not an array")
    counts, starts, positions = (kinds & 0x0F).astype(np.int64), positions + 1, positions + 1
    max_count = int(counts.max(initial=0))
    spaced = buffer.copy() if max_count > 1 else buffer
    for number in range(max_count):
        more = number < counts
        lengths_at = positions[more]
        field = _text(buffer, lengths_at)
        if not number:
            starts[more] = field[0]
        elif (field[0] != lengths_at + 1).any():
            raise ValueError("a further key is long")
        else:
            spaced[lengths_at] = _SPACE
        positions[more] = field[0] + field[1]
    return data if spaced is buffer else spaced.tobytes(), (starts, positions - starts), positions


def gather_field(data: bytes, field: tuple[Any, Any]) -> pa.Array:
    """Return the bytes of a field as an array of byte strings."""
    starts, lengths = field
    # An array over all bytes: every second element is a wanted field, the others are the bytes between fields.
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, starts + lengths
    every = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return every.take(numbers(np.arange(0, len(bounds), 2, dtype=np.int32), pa.int32()))


def gather_text(data: bytes, field: tuple[Any, Any], *, is_nullable: bool) -> pa.Array | None:
    """Return a field as an array of strings, with null for empty ones if `is_nullable`; None if one is not UTF-8."""
    lengths = field[1]
    total = int(lengths.sum())
    if not total and is_nullable:
        return pa.nulls(len(lengths), pa.string())
    _, offsets, values = gather_field(data, field).buffers()
    if total and (np.frombuffer(values, np.uint8, total) >= _NOT_ASCII).any() and not _is_utf8(values, total, offsets):
        return None
    valid = bits(lengths > 0) if is_nullable else None
    return pa.Array.from_buffers(pa.string(), len(lengths), [valid, offsets, values])


def _is_utf8(values: pa.Buffer, total: int, offsets: pa.Buffer) -> bool:
    """Whether each value is UTF-8: all of them together are, and no value begins in the middle of a character."""
    data = bytes(values[:total])
    starts = np.frombuffer(offsets, np.int32)
    firsts = np.frombuffer(data, np.uint8)[starts[starts < total]]
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not ((firsts & 0xC0) == _NOT_ASCII).any()


def joined_pulls(bodies: Sequence[bytes], starts: Sequence[Any]) -> tuple[bytes, Any]:
    """Join pulls; returns their bytes, and the positions of their records."""
    if len(bodies) == 1:
        return bodies[0], starts[0]
    base, moved = 0, []
    for body, begins in zip(bodies, starts, strict=True):
        moved.append(begins + base)
        base += len(body)
    return b"".join(bodies), np.concatenate(moved)
