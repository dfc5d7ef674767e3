"""Rows of bodies are checked against the table: what passes is of the types, in the bounds and not too long."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import InvalidParameter
from model.limits import MAX_ACKED_OFFSETS, MAX_LEASE_ROWS, MAX_SPREAD_BROKERS
from remoting.body import rows_of, unpack_body
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.wire.field import Field
from remoting.wire.schema import SCHEMA

pytestmark = pytest.mark.walk

WITH_ROWS = [code for code, schema in SCHEMA.items() if schema.rows is not None]
EXAMPLES: dict[type, Any] = {str: "text", int: 1, bytes: b"bytes", list: [1, 2]}
EVERY_COLUMN = [
    pytest.param(code, at, id=f"{code.name}.{column.name}")
    for code in WITH_ROWS
    for at, column in enumerate(SCHEMA[code].columns)
]


def good_row(code: RequestCode) -> list[Any]:
    return [EXAMPLES[column.type] for column in SCHEMA[code].columns]


def as_body(code: RequestCode, rows: list[list[Any]]) -> list[Any]:
    return [row[0] for row in rows] if isinstance(SCHEMA[code].rows, Field) else rows


def read(code: RequestCode, value: object) -> tuple[Any, ...]:
    return rows_of(Command(REQUEST, code, 1, {}, msgpack.packb(value)))


@pytest.mark.parametrize("code", WITH_ROWS, ids=lambda code: code.name)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_of_the_right_types_are_returned_as_tuples(code: RequestCode, count: int) -> None:
    rows = as_body(code, [good_row(code)] * count)
    assert read(code, rows) == msgpack.unpackb(msgpack.packb(rows), use_list=False)


@pytest.mark.parametrize(("code", "at"), EVERY_COLUMN)
@pytest.mark.parametrize("value", ["text", 1, 1.0, True, None, [1], {}, b"bytes"], ids=repr)
def test_a_value_of_another_type_is_refused_and_its_row_named(code: RequestCode, at: int, value: object) -> None:
    bad = good_row(code)
    bad[at] = value
    rows = as_body(code, [good_row(code), bad])
    if type(value) is SCHEMA[code].columns[at].type:
        assert len(read(code, rows)) == 2
        return
    with pytest.raises(InvalidParameter, match=rf"{code.name}: the body must be an array of .*, and row 1 is \["):
        read(code, rows)


@pytest.mark.parametrize(("code", "at"), EVERY_COLUMN)
def test_a_number_at_its_bounds_passes_and_one_past_them_is_named(code: RequestCode, at: int) -> None:
    column = SCHEMA[code].columns[at]
    for bound, past in ((column.minimum, -1), (column.maximum, 1)):
        if bound is not None:
            row = good_row(code)
            row[at] = bound
            assert read(code, as_body(code, [row]))
            if bound == 2**64 - 1:
                continue  # msgpack has no larger number
            row[at] = bound + past
            with pytest.raises(InvalidParameter, match=f"{column.title} of row 0 must be .*, got {bound + past}$"):
                read(code, as_body(code, [row]))


@pytest.mark.parametrize("row", [[], ["t"], ["t", 0, 0], "t", 1, None, {}], ids=repr)
def test_a_row_of_another_length_is_refused(row: object) -> None:
    with pytest.raises(InvalidParameter, match=r"array of \[topic, queue id\], at most 16384, and row 0 is "):
        read(RequestCode.LOCK_BATCH_MQ, [row])


@pytest.mark.parametrize("value", [1, "text", {"a": 1}, None], ids=repr)
@pytest.mark.parametrize("code", WITH_ROWS, ids=lambda code: code.name)
def test_anything_but_an_array_is_refused(code: RequestCode, value: object) -> None:
    with pytest.raises(InvalidParameter, match=f"{code.name}: the body must be an array of .*, got "):
        read(code, value)


@pytest.mark.parametrize("body", [None, b"", b"\xc1", b"\x91", b"\x90\x90", b"\x81\x90\x01"], ids=repr)
def test_a_body_that_is_not_one_msgpack_value_is_refused(body: bytes | None) -> None:
    with pytest.raises(InvalidParameter, match="LOCK_BATCH_MQ: the body must be an array of"):
        rows_of(Command(REQUEST, RequestCode.LOCK_BATCH_MQ, 1, {}, body))
    with pytest.raises(InvalidParameter, match="not valid msgpack"):
        unpack_body(body)


@pytest.mark.parametrize(
    ("code", "limit"), [(RequestCode.LOCK_BATCH_MQ, MAX_LEASE_ROWS), (RequestCode.SINK_SPREAD, MAX_SPREAD_BROKERS)]
)
def test_as_many_rows_as_are_allowed_pass_and_one_more_does_not(code: RequestCode, limit: int) -> None:
    rows = as_body(code, [good_row(code)] * limit)
    assert len(read(code, rows)) == limit
    with pytest.raises(InvalidParameter, match=f"at most {limit}"):
        read(code, [*rows, rows[0]])


def test_the_lists_of_all_rows_together_are_bounded() -> None:
    half = ["t", 0, 1, list(range(MAX_ACKED_OFFSETS // 2))]
    assert len(read(RequestCode.ACK_MESSAGE, [half, half])) == 2
    with pytest.raises(InvalidParameter, match=f"at most {MAX_ACKED_OFFSETS} offsets, and row 2 "):
        read(RequestCode.ACK_MESSAGE, [half, half, ["t", 0, 1, [5]]])


@pytest.mark.parametrize("offsets", [[1, "2"], [True], [1.0], [None], [[]]], ids=repr)
def test_an_item_of_another_type_is_refused(offsets: list[object]) -> None:
    with pytest.raises(InvalidParameter, match=r"\[topic, queue id, token, \[offset, ...\]\].*, and row 0 "):
        read(RequestCode.ACK_MESSAGE, [["t", 0, 1, offsets]])


def test_the_error_is_short_whatever_was_sent() -> None:
    nested: list[Any] = []
    for _ in range(200):
        nested = [nested]
    for row in (nested, ["x" * 100_000, b"y" * 100_000], ["t"] * 10_000, "z" * 100_000):
        with pytest.raises(InvalidParameter) as caught:
            read(RequestCode.LOCK_BATCH_MQ, [row])
        assert len(str(caught.value)) < 300


def test_another_value_is_returned_as_it_is() -> None:
    assert unpack_body(msgpack.packb({"a": [1, None]})) == {"a": [1, None]}
