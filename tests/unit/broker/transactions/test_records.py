from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.transactions.records import Mark, MarkKind, decode_half, decode_mark, encode_half, encode_mark
from model.transaction import HalfMessage

halves = st.builds(
    HalfMessage,
    *(st.text(), st.text(), st.integers(0, 2**31), st.integers(-(2**31), 2**31 - 1)),
    *(st.integers(-1, 10**7), st.text(), st.binary()),
)
offsets = st.integers(0, 2**40)


@given(halves)
def test_a_half_message_is_read_as_it_was_written(half: HalfMessage) -> None:
    assert decode_half(encode_half(half)) == half


@given(st.sampled_from(MarkKind), st.lists(offsets), st.lists(st.tuples(offsets, offsets, offsets)))
def test_a_mark_is_read_as_it_was_written(
    kind: MarkKind, named: list[int], targets: list[tuple[int, int, int]]
) -> None:
    mark = Mark(kind, tuple(named), tuple(targets))
    assert decode_mark(encode_mark(mark)) == mark


@pytest.mark.parametrize("record", [b"", b"\xc1", msgpack.packb(7), msgpack.packb([1, 2]), msgpack.packb([9, [], []])])
def test_other_bytes_are_neither(record: bytes) -> None:
    assert decode_half(record) is None
    assert decode_mark(record) is None
