from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages.matching import EXAMINED_BYTES, EXAMINED_RECORDS, parse_filter, read_matching
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadResult, ReadStatus
from model.errors import FilterIllegal
from model.message import Message, encode_payload
from model.record import iter_records
from model.sql.compiled import compile_filter
from tests.unit.broker.store.store_helpers import open_store

DEAR = compile_filter("price > 10")


def add(store: MessageStore, *prices: int, body: bytes = b"m") -> None:
    for price in prices:
        store.append(1, 0, encode_payload(Message("t", body, properties={"price": str(price)}), 0, "id"), 0)
        store.flush()


def read(store: MessageStore, offset: int = 0, max_n: int = 32, max_bytes: int = 2**20) -> ReadResult:
    return read_matching(store, 1, 0, offset, max_n=max_n, max_bytes=max_bytes, matches=DEAR)


def found(result: ReadResult) -> list[int]:
    return [record.queue_offset for record in iter_records(result.body, check_crc=True)]


@pytest.mark.parametrize("tail_bytes", [0, 2**20])
@given(
    prices=st.lists(st.sampled_from((1, 11)), max_size=60),
    start=st.integers(0, 60),
    max_n=st.integers(1, 8),
    max_bytes=st.sampled_from((1, 300, 2**20)),
)
def test_reads_one_after_another_find_exactly_what_matches_in_order(
    tail_bytes: int, prices: list[int], start: int, max_n: int, max_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as directory, open_store(Path(directory), tail_bytes=tail_bytes) as store:
        add(store, *prices)
        at, all_found = start, []
        while (result := read(store, at, max_n, max_bytes)).status in (ReadStatus.FOUND, ReadStatus.NO_MATCH):
            offsets = found(result)
            assert at < result.next_offset <= len(prices)
            assert len(offsets) == result.n <= max_n
            assert len(offsets) <= 1 or len(result.body) <= max_bytes
            all_found += offsets
            at = result.next_offset
        assert all_found == [n for n, price in enumerate(prices) if price > 10 and n >= start]
        assert at == max(start, len(prices)) or start > len(prices)


def test_one_call_examines_a_bounded_number_of_records(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        payload = encode_payload(Message("t", b"m", properties={"price": "1"}), 0, "id")
        for _ in range(3 * EXAMINED_RECORDS):
            store.append(1, 0, payload, 0)
        store.flush()
        result = read(store)
        assert result.status is ReadStatus.NO_MATCH
        assert EXAMINED_RECORDS <= result.next_offset < EXAMINED_RECORDS + 256


def test_one_call_examines_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=2**26, tail_bytes=0) as store:
        add(store, *[1] * 20, body=bytes(EXAMINED_BYTES // 4))
        assert read(store).next_offset == 4


def test_a_message_larger_than_the_answer_is_returned_alone(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        add(store, 1, 11, 11, body=bytes(1000))
        assert found(read(store, max_bytes=10)) == [1]


def test_the_end_and_offsets_outside_of_the_queue_are_answered_as_without_a_filter(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        add(store, 1)
        for offset in (1, 5):
            assert read(store, offset) == store.read(1, 0, offset, max_n=32, max_bytes=100)
        assert read(store, 0) == ReadResult(ReadStatus.NO_MATCH, b"", 0, 1, 0, 1)


def test_damaged_records_are_passed_over_and_noted(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0) as store:
        add(store, 11, 11, 11)
        [segment] = [path for path in tmp_path.iterdir() if path.suffix == ".log"]
        data = bytearray(segment.read_bytes())
        data[-5] ^= 1
        segment.write_bytes(data)
        result = read(store)
        assert (found(result), result.next_offset) == ([0, 1], 3)
        assert store.damage.count((1, 0), 0, 3) == 1


def test_a_record_that_is_not_a_message_has_no_properties(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(1, 0, b"\x97garbage", 0)
        store.flush()
        add(store, 11)
        assert found(read(store)) == [1]


def test_retry_topics_and_dead_letters_have_no_filter_but_it_is_checked() -> None:
    assert parse_filter({"topic": "t"}) is None
    assert parse_filter({"topic": "t", "sql": "price > 10"}) is DEAR
    for topic in ("%RETRY%g", "%DLQ%g"):
        assert parse_filter({"topic": topic, "sql": "price > 10"}) is None
        with pytest.raises(FilterIllegal):
            parse_filter({"topic": topic, "sql": "price >"})
