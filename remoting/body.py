"""Reads the body of a request: its rows, each checked against the schema, or its other values. Pure.

A body comes from a peer, so a handler gets only values of the types and within the bounds of the schema, and no more
rows than it allows. The body of a send is not read here: no server decodes the payload, and a batch is checked and
split in one step (`broker/messages/send.py`).

    >>> rows_of(Command(0, RequestCode.LOCK_BATCH_MQ, 1, {}, msgpack.packb([["orders", 0], ["orders", 1]])))
    (('orders', 0), ('orders', 1))

With -1 for the last queue id: LOCK_BATCH_MQ: the body must be an array of [topic, queue id], at most 16384: queue id of
row 1 must be at least 0, got -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from model.errors import InvalidParameter
from remoting.command import Command, short_text
from remoting.request_code import RequestCode
from remoting.wire.field import Field, RequestSchema
from remoting.wire.schema import SCHEMA, field_bounds, range_text


class _Shape(NamedTuple):
    """The schema of one body, prepared for checks: `bounded` and `lists` are columns with checks beyond the type."""

    wanted: str
    columns: tuple[Field, ...]
    types: tuple[type, ...]
    bounded: tuple[tuple[int, int, int], ...]
    lists: tuple[tuple[int, set[type | None]], ...]
    max_rows: int


def _shape_of(code: RequestCode, schema: RequestSchema) -> _Shape:
    columns = schema.columns
    return _Shape(
        f"{code.name}: the body must be an {schema.rows_text()}",
        columns,
        tuple(tuple if column.type is list else column.type for column in columns),
        tuple(
            (index, *bounds)
            for index, column in enumerate(columns)
            if not column.items and (bounds := field_bounds(column))
        ),
        tuple((index, {column.items}) for index, column in enumerate(columns) if column.type is list),
        schema.max_rows or 2**32 - 1,
    )


_SHAPES = {int(code): _shape_of(code, schema) for code, schema in SCHEMA.items() if schema.rows}
_PLAIN = {int(code) for code, schema in SCHEMA.items() if isinstance(schema.rows, Field)}


def rows_of(request: Command) -> tuple[Any, ...]:
    """Return the rows of a body, as tuples; or its values, when the schema has one field instead of columns.

    Raises:
        InvalidParameter: the body is not an array of such rows, or has too many; the text names the row and the column.
    """
    shape = _SHAPES[request.code]
    try:
        rows = msgpack.unpackb(request.body or b"", max_array_len=shape.max_rows, use_list=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidParameter(f"{shape.wanted}: {str(error) or 'it is not msgpack'}") from error
    if type(rows) is not tuple:
        raise InvalidParameter(f"{shape.wanted}, got {short_text(rows)}")
    _check_rows(shape, [(value,) for value in rows] if request.code in _PLAIN else rows)
    return rows


def _check_rows(shape: _Shape, rows: Sequence[Any]) -> None:
    expectation, columns, types, bounded, lists, max_rows = shape
    n = 0
    for row in rows:
        if type(row) is not tuple or tuple(map(type, row)) != types:
            raise InvalidParameter(f"{expectation}, and row {_number(rows, row)} is {_types_text(row)}")
        for index, low, high in bounded:
            if not low <= row[index] <= high:
                raise InvalidParameter(
                    f"{expectation}: {columns[index].title} of row {_number(rows, row)} must be "
                    f"{range_text(low, high)}, got {row[index]}"
                )
        for index, items in lists:
            values = row[index]
            n += len(values)
            # A set of types: checking each item would cost as much as handling it.
            if n > max_rows or (values and set(map(type, values)) != items):
                raise InvalidParameter(f"{expectation}, and row {_number(rows, row)} is not, or is too long")


def _number(rows: Sequence[Any], row: object) -> int:
    return next(number for number, each in enumerate(rows) if each is row)


def _types_text(row: object) -> str:
    if type(row) is not tuple:
        return short_text(row)
    return f"[{', '.join(type(value).__name__ for value in row[:_SHOWN_VALUES])}]"


_SHOWN_VALUES = 8


def unpack_body(body: bytes | None) -> Any:
    """Return the msgpack value of a body, for a `from_wire` that checks it.

    Raises:
        InvalidParameter: the body is not msgpack.
    """
    try:
        return msgpack.unpackb(body or b"")
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidParameter(f"the request's body is not valid msgpack: {error}") from error
