"""Rows of bodies against a naive twin: whatever a peer sends is either rows of the schema, or refused."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.limits import MAX_ACKED_OFFSETS, MAX_LEASE_ROWS
from remoting.body import rows_of
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(0, 1), st.text(max_size=2), st.binary(max_size=2)
)
ROWS = st.lists(st.lists(VALUES, min_size=1, max_size=4) | VALUES, max_size=4)
LEASES = st.lists(st.tuples(st.text(max_size=2), st.integers(-1, 2**64 - 1)), max_size=3)
ACKS = st.lists(st.tuples(st.text(max_size=2), st.just(0), st.just(1), st.lists(VALUES, max_size=3)), max_size=3)


def is_lease(row: Any) -> bool:
    return type(row) is list and len(row) == 2 and type(row[0]) is str and type(row[1]) is int and row[1] >= 0


def is_ack(row: Any) -> bool:
    return (
        type(row) is list
        and list(map(type, row)) == [str, int, int, list]
        and all(type(offset) is int for offset in row[3])
    )


def read(code: RequestCode, body: bytes) -> Any:
    with contextlib.suppress(InvalidParameter):
        return rows_of(Command(REQUEST, code, 1, {}, body))
    return None


@given(ROWS | LEASES | ACKS | VALUES)
def test_a_body_is_rows_of_its_schema_or_refused(value: Any) -> None:
    body = msgpack.packb(value)
    rows, sent = msgpack.unpackb(body, use_list=False), msgpack.unpackb(body)
    for code, is_row, most in (
        (RequestCode.LOCK_BATCH_MQ, is_lease, MAX_LEASE_ROWS),
        (RequestCode.BATCH_ACK_MESSAGE, is_ack, MAX_ACKED_OFFSETS),
    ):
        is_good = type(sent) is list and all(map(is_row, sent)) and len(sent) <= most
        assert read(code, body) == (rows if is_good else None)


@given(st.binary(max_size=40))
def test_any_bytes_are_rows_or_refused(body: bytes) -> None:
    rows = read(RequestCode.LOCK_BATCH_MQ, body)
    assert rows is None or all(is_lease(list(row)) for row in rows)
