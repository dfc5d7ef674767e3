from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store.segments import scan as segment_scan
from broker.store.segments.index import ENTRY
from broker.store.segments.index_file import Read
from broker.store.segments.scan import (
    QUEUE_TABLE,
    TOPIC_DROPPED,
    Scan,
    decode_queue_table,
    encode_queue_table,
    encode_topic_dropped,
    scan_segment,
)
from model.record import CONTROL_FLAG, HEADER, check_record, encode_record, iter_records

HEAD = encode_queue_table({(1, 0): 5, (2, 0): 9}, 1_000)


def record(offset: int, payload: bytes = b"payload", *, key: tuple[int, int] = (1, 0), stored_ms: int = 1_001) -> bytes:
    return encode_record(*key, offset, stored_ms, 3, 0, 0, payload)


def reader(data: bytes) -> Read:
    return lambda length, position: data[position : position + length]


def scan(*parts: bytes, ends_before: dict[tuple[int, int], int] | None = None) -> Scan:
    data = b"".join(parts)
    return scan_segment(reader(data), len(data), ends_before)


def lengths(result: Scan, key: tuple[int, int] = (1, 0)) -> list[int]:
    """Return the lengths in the row of a queue; 0 is a hole."""
    row = result.index.row(key)
    assert row is not None
    return [length for _, length, _, _ in ENTRY.iter_unpack(row.entries)]


def test_a_whole_segment_is_indexed_record_by_record() -> None:
    result = scan(HEAD, record(5), record(9, b"x", key=(2, 0)), record(6, stored_ms=1_007))
    assert result.index.ends() == {(1, 0): 7, (2, 0): 10}
    assert lengths(result) == [47, 47]
    row = result.index.row((1, 0))
    assert row is not None
    assert list(ENTRY.iter_unpack(row.entries)) == [(len(HEAD), 47, 3, 1_001), (len(HEAD) + 47 + 41, 47, 3, 1_007)]
    assert (result.record_count, result.damaged_bytes, result.index.hole_count) == (3, 0, 0)
    assert (result.first_stored_ms, result.last_stored_ms) == (1_001, 1_007)


@given(st.integers(0, 300))
def test_a_tail_that_was_cut_anywhere_leaves_the_whole_records_before_it(cut: int) -> None:
    parts = [HEAD, *(record(5 + number, bytes(number)) for number in range(4))]
    data = b"".join(parts)[:cut]
    result = scan_segment(reader(data), len(data), None)
    whole = 0
    for part in parts:
        if whole + len(part) > len(data):
            break
        whole += len(part)
    assert (result.valid_bytes, result.damaged_bytes) == (whole, 0)


@pytest.mark.parametrize("zeros", [1, 39, 40, 4096, 3 * 1024 * 1024])
def test_zeros_after_the_last_record_are_a_torn_tail(zeros: int) -> None:
    result = scan(HEAD, record(5), bytes(zeros))
    assert (result.valid_bytes, result.damaged_bytes) == (len(HEAD) + 47, 0)


@given(st.integers(0, 47 * 8 - 1))
def test_a_damaged_record_is_a_hole_and_the_next_is_found(bit: int) -> None:
    damaged = bytearray(record(6))
    damaged[bit // 8] ^= 1 << bit % 8
    result = scan(HEAD, record(5), bytes(damaged), record(7), record(9, key=(2, 0)))
    assert lengths(result) == [47, 0, 47]
    assert lengths(result, (2, 0)) == [47]
    assert (result.damaged_bytes, result.index.hole_count) == (47, 1)


@given(st.binary(max_size=200))
def test_any_bytes_between_records_are_passed_over(garbage: bytes) -> None:
    result = scan(HEAD, record(5), garbage, record(6))
    assert lengths(result) == [47, 47]
    assert result.damaged_bytes == len(garbage)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_segment_without_records(garbage: bytes) -> None:
    assert scan(garbage).record_count == 0


def test_records_are_found_on_both_sides_of_a_block_and_larger_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for block_bytes in (1, 40, 47, 64, 100):
        monkeypatch.setattr(segment_scan, "BLOCK_BYTES", block_bytes)
        result = scan(HEAD, record(5), bytes(150), record(6, bytes(300)), b"\xff" * 150, record(7))
        assert lengths(result) == [47, 340, 47]
        assert result.damaged_bytes == 300


def test_without_a_queue_table_the_ends_of_the_segment_before_are_used() -> None:
    damaged_head = b"\xff" + HEAD[1:]
    result = scan(damaged_head, record(6), record(0, key=(3, 0)), ends_before={(1, 0): 5, (2, 0): 9})
    assert result.index.ends() == {(1, 0): 7, (2, 0): 9, (3, 0): 1}
    assert lengths(result) == [0, 47]


def test_the_queue_table_is_believed_before_the_segment_before() -> None:
    assert scan(HEAD, ends_before={(1, 0): 4, (7, 0): 3}).index.ends() == {(1, 0): 5, (2, 0): 9}


def test_without_any_table_a_queue_begins_at_its_first_record() -> None:
    result = scan(b"\xff" + HEAD[1:], record(6), record(8))
    row = result.index.row((1, 0))
    assert row is not None
    assert row.first_offset == 6
    assert lengths(result) == [47, 0, 47]


def test_a_queue_that_is_created_in_the_segment_begins_at_zero() -> None:
    result = scan(HEAD, record(1, key=(3, 0)))
    assert lengths(result, (3, 0)) == [0, 47]


def test_a_dropped_topic_has_no_rows() -> None:
    result = scan(HEAD, record(5), encode_topic_dropped(1, 1_002), record(9, key=(2, 0)))
    assert result.index.ends() == {(2, 0): 10}


def test_a_record_whose_place_is_taken_does_not_replace_the_first() -> None:
    result = scan(HEAD, record(5, b"first"), record(5, b"second"), record(6))
    assert lengths(result) == [45, 47]
    assert result.damaged_bytes == 46


@pytest.mark.parametrize("rows_per_record", [1, 2, 3, 100])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_queue_table_is_read_back_also_when_it_takes_several_records(
    monkeypatch: pytest.MonkeyPatch, count: int, rows_per_record: int
) -> None:
    monkeypatch.setattr(segment_scan, "_TABLE_ROWS_PER_RECORD", rows_per_record)
    ends = {(1, queue_id): queue_id * 10**12 for queue_id in range(count)}
    records = list(iter_records(encode_queue_table(ends, 5), check_crc=True))
    assert len(records) == max(1, -(-count // rows_per_record))
    assert all(record.flags == QUEUE_TABLE and record.stored_ms == 5 for record in records)
    assert {key: end for record in records for key, end in decode_queue_table(record.payload)} == ends


def test_the_end_of_a_topic_names_it() -> None:
    record = encode_topic_dropped(42, 5)
    check_record(record)
    _, _, topic_id, _, _, stored_ms, _, flags, _ = HEADER.unpack_from(record)
    assert (topic_id, stored_ms, flags) == (42, 5, TOPIC_DROPPED)
    assert QUEUE_TABLE & TOPIC_DROPPED & CONTROL_FLAG
