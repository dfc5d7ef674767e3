from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store.segments.index import ENTRY, LogKey, MemoryIndex
from broker.store.segments.index_file import (
    HEADER_BYTES,
    FileIndex,
    IndexFileCorrupt,
    PartCache,
    decode_header,
    encode_index,
)

KEYS = st.tuples(st.integers(0, 300), st.integers(0, 3))
U32 = st.integers(0, 2**32 - 1)
ENTRIES = st.lists(st.tuples(U32, U32, st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**40)), max_size=5)


def index_of(rows: dict[LogKey, tuple[int, list[tuple[int, int, int, int]]]]) -> MemoryIndex:
    index = MemoryIndex({key: first for key, (first, _) in rows.items()})
    for key, (_, entries) in rows.items():
        index.rows[key].entries += b"".join(ENTRY.pack(*entry) for entry in entries)
    return index


def file_index(data: bytes, cache: PartCache, reads: list[int] | None = None) -> FileIndex:
    def read(length: int, position: int) -> bytes:
        if reads is not None:
            reads.append(length)
        return data[position : position + length]

    return FileIndex(decode_header(data[:HEADER_BYTES]), read, cache)


def encode(index: MemoryIndex, base_position: int = 0) -> bytes:
    return encode_index(index, base_position=base_position, covered_bytes=1_000, last_stored_ms=77)


SMALL = encode(index_of({(1, 0): (5, [(0, 40, 1, 2), (40, 41, 2, 3)]), (1, 1): (0, []), (2, 0): (9, [(81, 40, 0, 4)])}))


@given(st.dictionaries(KEYS, st.tuples(st.integers(0, 2**64 - 1), ENTRIES), max_size=20), st.integers(0, 500))
def test_what_is_written_is_read_back_whatever_the_cache_holds(
    rows: dict[LogKey, tuple[int, list[tuple[int, int, int, int]]]], budget: int
) -> None:
    memory = index_of(rows)
    index = file_index(encode(memory), PartCache(budget))
    assert (index.firsts(), index.ends()) == (memory.firsts(), memory.ends())
    for key in [*rows, (301, 0), *rows]:
        expected, found = memory.row(key), index.row(key)
        assert index.first_offset(key) == memory.first_offset(key)
        assert (found and (found.first_offset, found.entries)) == (
            expected and (expected.first_offset, expected.entries)
        )


def test_the_header_reports_what_opening_needs() -> None:
    memory = index_of({(1, 0): (5, [])})
    memory.add_holes(memory.rows[1, 0], 2, 3)
    header = decode_header(encode(memory, base_position=123)[:HEADER_BYTES])
    assert (header.base_position, header.covered_bytes, header.last_stored_ms) == (123, 1_000, 77)
    assert (header.row_count, header.hole_count) == (1, 2)


@pytest.mark.parametrize("data", [b"", SMALL[: HEADER_BYTES - 1], b"x" * HEADER_BYTES])
def test_what_is_not_a_header_is_refused(data: bytes) -> None:
    with pytest.raises(IndexFileCorrupt):
        decode_header(data)


def load_all(data: bytes) -> None:
    index = file_index(data, PartCache(0))
    for key in ((1, 0), (2, 0)):
        index.row(key)


@given(st.integers(0, len(SMALL) * 8 - 1))
def test_any_flipped_bit_is_found_when_its_part_is_loaded(bit: int) -> None:
    damaged = bytearray(SMALL)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IndexFileCorrupt):
        load_all(bytes(damaged))


@given(st.integers(0, len(SMALL) - 1))
def test_a_file_that_was_cut_short_is_found_out(size: int) -> None:
    with pytest.raises(IndexFileCorrupt):
        load_all(SMALL[:size])


def test_a_part_is_loaded_once_while_the_cache_holds_it() -> None:
    reads: list[int] = []
    index = file_index(SMALL, PartCache(10_000), reads)
    for _ in range(3):
        assert index.row((1, 0)) is index.row((1, 0))
        index.first_offset((2, 0))
    assert len(reads) == 2  # the directory and one row


def test_the_cache_keeps_what_was_used_last_within_its_budget() -> None:
    cache = PartCache(1_000)
    for base in range(10):
        cache.put(base, None, bytes(100))
        assert cache.get(0, None) is not None
    assert [base for base in range(10) if cache.get(base, None)] == [0, 9]
    assert cache.bytes <= 1_000


def test_the_newest_part_stays_even_if_it_is_larger_than_the_budget() -> None:
    cache = PartCache(10)
    cache.put(1, None, bytes(100))
    assert cache.get(1, None) == bytes(100)
    cache.put(2, None, bytes(50))
    assert cache.get(1, None) is None
    assert cache.get(2, None) == bytes(50)


def test_the_parts_of_a_removed_segment_are_forgotten() -> None:
    cache = PartCache(10_000)
    cache.put(1, None, b"a")
    cache.put(2, None, b"b")
    before = cache.bytes
    cache.forget(1)
    assert cache.get(1, None) is None
    assert cache.get(2, None) == b"b"
    assert cache.bytes == before // 2
