"""The table of terms, in memory and in its file, against a plain list."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store.keys import file as key_file
from broker.store.keys.file import KeyFile, KeyFileCorrupt, KeyTable, encode_keys

COLLIDING = (b"plumless", b"buckeroo")  # their CRC-32 is the same


def opened(data: bytes, base_position: int = 7, covered_bytes: int = 900) -> KeyFile:
    return KeyFile(lambda length, position: data[position : position + length], base_position, covered_bytes)


def filled(entries: list[tuple[bytes, int]]) -> KeyTable:
    table = KeyTable()
    for term, position in entries:
        table.add(term, position)
    return table


def encoded(table: KeyTable) -> bytes:
    return encode_keys(table, base_position=7, covered_bytes=900)


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", *COLLIDING]) | st.binary(max_size=9), st.integers(0, 2**32 - 1)))
)
def test_table_and_file_give_the_places_of_every_term_newest_first(entries: list[tuple[bytes, int]]) -> None:
    table = filled(entries)
    file = opened(encoded(table))
    for term in {*(term for term, _ in entries), b"not there"}:
        expected = sorted((position for other, position in entries if crc32(other) == crc32(term)), reverse=True)
        assert table.positions(term) == file.positions(term) == expected


def test_terms_with_the_same_hash_are_candidates_of_each_other() -> None:
    assert filled([(COLLIDING[0], 1), (COLLIDING[1], 2)]).positions(COLLIDING[0]) == [2, 1]


def test_any_flipped_byte_is_found_or_not_read() -> None:
    data = encoded(filled([(b"%d" % number, number) for number in range(40)]))
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        wrong = []
        for number in range(40):
            try:
                if opened(bytes(flipped)).positions(b"%d" % number) != [number]:
                    wrong.append(number)
            except KeyFileCorrupt:
                continue
        assert wrong == [], at
        if at < 36:
            with pytest.raises(KeyFileCorrupt):
                opened(bytes(flipped))


@pytest.mark.parametrize("length", [0, 10, 36, 1000, -1])
def test_a_file_that_was_cut_short_is_corrupt(length: int) -> None:
    data = encoded(filled([(b"k", 1)]))[:length]
    with pytest.raises(KeyFileCorrupt):
        opened(data).positions(b"k")


@pytest.mark.parametrize("place", [(8, 900), (7, 899)])
def test_a_file_of_another_state_of_the_segment_is_not_used(place: tuple[int, int]) -> None:
    with pytest.raises(KeyFileCorrupt, match="it is about 900 bytes at 7"):
        opened(encoded(KeyTable()), *place)


def test_a_table_with_too_many_entries_gives_them_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "MAX_ENTRIES", 3)
    table = filled([(b"k", 1), (b"k", 2), (b"k", 3)])
    assert not table.overfull
    table.add(b"k", 4)
    assert table.overfull
    with pytest.raises(AssertionError):
        encoded(table)
