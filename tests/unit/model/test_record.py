from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.record import (
    HEADER,
    HEADER_BYTES,
    FlushMode,
    RecordCorrupt,
    RecordTruncated,
    StoredRecord,
    check_record,
    encode_record,
    iter_records,
)

U16 = st.integers(0, 2**16 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
RECORDS = st.tuples(U32, U32, U64, U64, I32, U16, U16, st.binary(max_size=40))

ONE = encode_record(1, 2, 3, 4, -5, 6, 7, b"payload")


def test_the_header_is_laid_out_as_documented() -> None:
    assert HEADER_BYTES == 40
    assert ONE.hex(" ", -4) == (
        "0000002f 52d9c35d 00000001 00000002 00000000 00000003 00000000 00000004 fffffffb 00060007 7061796c 6f6164"
    )
    length, _, *rest = HEADER.unpack_from(ONE)
    assert length == len(ONE)
    assert rest == [1, 2, 3, 4, -5, 6, 7]
    assert ONE[HEADER_BYTES:] == b"payload"


@given(st.lists(RECORDS, max_size=8), st.booleans())
def test_what_is_encoded_is_decoded(
    records: list[tuple[int, int, int, int, int, int, int, bytes]], check_crc: bool
) -> None:
    body = b"".join(encode_record(*record) for record in records)
    assert list(iter_records(body, check_crc=check_crc)) == [StoredRecord(*record[2:]) for record in records]


@given(RECORDS, st.data())
def test_any_flipped_bit_fails_the_check(
    record: tuple[int, int, int, int, int, int, int, bytes], data: st.DataObject
) -> None:
    damaged = bytearray(encode_record(*record))
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordCorrupt):
        check_record(bytes(damaged))
    with pytest.raises(RecordCorrupt):
        list(iter_records(bytes(damaged), check_crc=True))


@given(st.integers(1, len(ONE) - 1), st.booleans())
def test_a_buffer_that_ends_inside_a_record_yields_the_whole_ones_and_then_fails(cut: int, check_crc: bool) -> None:
    iterator = iter_records(ONE + ONE[:cut], check_crc=check_crc)
    assert next(iterator).queue_offset == 3
    with pytest.raises(RecordTruncated, match=f"byte {len(ONE)}"):
        next(iterator)
    with pytest.raises(RecordTruncated):
        check_record(ONE[:cut])


@pytest.mark.parametrize("length", [0, 1, HEADER_BYTES - 1])
def test_a_length_below_a_header_is_corrupt_and_does_not_loop(length: int) -> None:
    damaged = struct.pack(">I", length) + ONE[4:]
    with pytest.raises(RecordCorrupt, match=f"length of {length}"):
        list(iter_records(damaged))
    with pytest.raises(RecordCorrupt, match=f"length of {length}"):
        check_record(damaged)


def test_check_record_walks_from_record_to_record() -> None:
    assert check_record(ONE + ONE) == len(ONE)
    assert check_record(ONE + ONE, len(ONE)) == 2 * len(ONE)
    assert check_record(memoryview(ONE + b"rest")) == len(ONE)


def test_an_empty_buffer_holds_no_records() -> None:
    assert list(iter_records(b"")) == []


def test_a_number_out_of_range_is_the_callers_bug() -> None:
    with pytest.raises(struct.error):
        encode_record(1, 2, 3, 4, 5, 6, 2**16, b"")


def test_the_modes_are_those_of_the_documentation() -> None:
    assert list(FlushMode) == ["async", "sync"]
