"""Packs whole columns with msgpack, in a few steps of numpy and Arrow instead of a call for each row. Pure.

A packed value is a head with its kind and length, and its bytes. `concat_columns` puts the columns of heads and bytes
together, row by row:

    b"xy", b"z"    heads: c4 02, c4 01    joined: c4 02 78 79, c4 01 7a
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrow_arrays import binaries

_FIXSTR, _STR8, _STR16, _STR32 = 0xA0, 0xD9, 0xDA, 0xDB
_BIN8, _BIN16, _BIN32 = 0xC4, 0xC5, 0xC6
_LONGEST_HEAD = 5
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def constant(data: bytes) -> pa.Scalar:
    """Make a value that `concat_columns` repeats in each row."""
    return binaries([data])[0]


def concat_columns(*columns: pa.Array | pa.Scalar) -> pa.Array:
    """Concatenate columns of byte strings, and constants, row by row, without null values."""
    return pc.binary_join_element_wise(*columns, constant(b""))


def of_width(rows: Any) -> pa.Array:
    """Make a column of byte strings from the rows of a matrix of bytes."""
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows.shape[1])
    data = np.ascontiguousarray(rows)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def lengths_of(column: pa.Array) -> Any:
    """Return the number of bytes of each value of a column of byte strings without nulls."""
    return offsets_of(column)[1:] - offsets_of(column)[:-1]


def offsets_of(column: pa.Array) -> Any:
    """Return the positions in the third buffer at which the values of a column begin, and the end of the last one."""
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4).astype(np.int64)


def text_heads(lengths: Any) -> pa.Array:
    """Make the heads of strings of these numbers of bytes."""
    limits = [lengths < 32, lengths < 2**8, lengths < 2**16]
    kinds = np.select(limits, [_FIXSTR | lengths, _STR8, _STR16], _STR32)
    return _heads(lengths, kinds, np.select(limits, [1, 2, 3], 5))


def binary_heads(lengths: Any) -> pa.Array:
    """Make the heads of byte strings of these numbers of bytes."""
    limits = [lengths < 2**8, lengths < 2**16]
    return _heads(lengths, np.select(limits, [_BIN8, _BIN16], _BIN32), np.select(limits, [2, 3], 5))


def _heads(lengths: Any, kinds: Any, widths: Any) -> pa.Array:
    """Make heads of a byte for the kind, and the length in the other bytes of the width."""
    n = len(lengths)
    heads = np.zeros((n, _LONGEST_HEAD), np.uint8)
    heads[:, 0] = kinds
    numbers = lengths.astype(">u4").view(np.uint8).reshape(n, 4)
    for width in np.unique(widths).tolist():
        is_wide = widths == width
        heads[is_wide, 1:width] = numbers[is_wide, 5 - width :]
    data = heads[np.arange(_LONGEST_HEAD) < widths[:, None]]
    offsets = np.zeros(n + 1, np.int32)
    np.cumsum(widths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def hex_numbers(first: int, n: int, digits: int) -> pa.Array:
    """Make a column of n successive numbers in hexadecimal digits, without wrapping: `first + n` has to fit them."""
    shifts = np.arange(4 * (digits - 1), -1, -4)
    return of_width(_HEX[(np.arange(first, first + n)[:, None] >> shifts) & 0xF])
