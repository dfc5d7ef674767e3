"""Builds Arrow arrays from lists and numbers by laying out their buffers.

`pa.array`, `pa.repeat` and `pa.scalar` are not used, also not inside Arrow's functions on plain values: the first call
of one imports pandas, which takes a third of a second in each of Spark's many Python workers, and in a report.

The buffers have Arrow's columnar format. An array of n strings or byte strings has n + 1 offsets, of which the last is
the end, and the concatenated values. An array with nulls has a bit per value, 0 for null, lowest bit of a byte first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def numbers(values: Any, kind: pa.DataType, is_valid: Iterable[bool] | None = None) -> pa.Array:
    """Make an array of integers, floats or times from a contiguous numpy array of the width of `kind`.

    Values with a false `is_valid` are null.
    """
    return pa.Array.from_buffers(kind, len(values), [_bits_of(is_valid, len(values)), pa.py_buffer(values)])


def binaries(values: Sequence[bytes]) -> pa.Array:
    """Make an array of byte strings without nulls."""
    return _lay_out(pa.binary(), map(len, values), b"".join(values), len(values))


def texts(values: Sequence[str], is_valid: Iterable[bool] | None = None) -> pa.Array:
    """Make an array of strings; a false `is_valid` means null. A lone surrogate raises UnicodeEncodeError."""
    joined = "".join(values)
    data = joined.encode()
    lengths = map(len, values) if len(data) == len(joined) else (len(value.encode()) for value in values)
    return _lay_out(pa.string(), lengths, data, len(values), _bits_of(is_valid, len(values)))


def repeat_text(text: str, times: int) -> pa.Array:
    """Make an array of one string, repeated."""
    data = text.encode()
    offsets = np.arange(times + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), times, [None, pa.py_buffer(offsets), pa.py_buffer(data * times)])


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make an array of strings, 64-bit integers, floats or booleans; None is null."""
    is_valid = [value is not None for value in values] if None in values else None
    if pa.types.is_string(kind):
        return texts(values if is_valid is None else [value or "" for value in values], is_valid)
    filled = values if is_valid is None else [value or 0 for value in values]
    if pa.types.is_boolean(kind):
        buffers = [_bits_of(is_valid, len(values)), bits(np.array(filled, np.bool_))]
        return pa.Array.from_buffers(kind, len(values), buffers)
    return numbers(np.array(filled, np.float64 if pa.types.is_floating(kind) else np.int64), kind, is_valid)


def table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Make a table from rows that have the values of its columns in order, of the kinds of `column`."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [column(each, field.type) for each, field in zip(columns, schema, strict=True)], schema=schema
    )


def scalar(value: str | float) -> pa.Scalar:
    """Make a scalar from a string, 64-bit integer or float, to compare or compute columns with."""
    kind = pa.string() if isinstance(value, str) else pa.float64() if isinstance(value, float) else pa.int64()
    return column([value], kind)[0]


_NUMPY = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64}


def as_numpy(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return the integers, floats or booleans of a column without nulls; `to_numpy` would import pandas as well."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    data = array.buffers()[1]
    if not len(array) or data is None:
        return np.empty(0, _NUMPY.get(array.type, np.bool_))
    if pa.types.is_boolean(array.type):
        unpacked = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return unpacked[array.offset : array.offset + len(array)].astype(np.bool_)
    kind = np.dtype(_NUMPY[array.type])
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


def bits(is_valid: Any) -> pa.Buffer:
    """Return the validity bits of a numpy array of bools."""
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def _bits_of(is_valid: Iterable[bool] | None, n: int) -> pa.Buffer | None:
    return None if is_valid is None else bits(np.fromiter(is_valid, np.bool_, n))


def _lay_out(
    kind: pa.DataType, lengths: Iterable[int], data: bytes, n: int, valid: pa.Buffer | None = None
) -> pa.Array:
    # 32 bits are enough for a batch of a few MB.
    offsets = np.zeros(n + 1, np.int32)
    np.cumsum(np.fromiter(lengths, np.int32, n), out=offsets[1:])
    return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(offsets), pa.py_buffer(data)])
