from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from broker.store.segments.index import ENTRY, IndexRow, MemoryIndex


def row_of(first_offset: int, entries: list[tuple[int, int, int, int]]) -> IndexRow:
    return IndexRow(first_offset, bytearray(b"".join(ENTRY.pack(*entry) for entry in entries)))


def test_an_entry_is_twenty_bytes() -> None:
    assert ENTRY.pack(1, 2, -3, 4).hex(" ", -4) == "00000001 00000002 fffffffd 00000000 00000004"


@given(st.integers(0, 100), st.lists(st.integers(0, 50)), st.integers(-1, 51))
def test_the_first_offset_at_a_time_is_what_a_search_in_a_list_finds(first: int, times: list[int], wanted: int) -> None:
    times.sort()
    row = row_of(first, [(0, 40, 0, stored_ms) for stored_ms in times])
    assert (row.count, row.end_offset) == (len(times), first + len(times))
    assert row.first_at_or_after(wanted) == first + bisect_left(times, wanted)


def test_holes_and_what_lies_beyond_the_end_of_the_file_are_lost() -> None:
    row = row_of(5, [(0, 40, 0, 1), (0, 0, 0, 1), (0, 0, 0, 1), (40, 40, 0, 2), (80, 40, 0, 3), (120, 40, 0, 3)])
    assert row.lost_ranges(1_000) == [(6, 8)]
    assert row.lost_ranges(160) == [(6, 8)]
    assert row.lost_ranges(119) == [(6, 8), (9, 11)]
    assert row.lost_ranges(0) == [(5, 11)]


def test_the_newest_entries_can_be_taken_back() -> None:
    row = row_of(5, [(0, 40, 0, 1), (40, 40, 0, 2)])
    row.remove_last(1)
    assert (row.end_offset, row.lost_ranges(40)) == (6, [])
    row.remove_last(0)
    assert row.end_offset == 6


def test_an_index_has_a_row_for_every_queue_also_without_messages() -> None:
    index = MemoryIndex({(1, 0): 7})
    index.add_row((2, 0), 0).entries += ENTRY.pack(0, 40, 0, 1)
    assert index.ends() == {(1, 0): 7, (2, 0): 1}
    assert [index.first_offset(key) for key in ((1, 0), (2, 0), (3, 0))] == [7, 0, 0]
    assert index.firsts() == {(1, 0): 7, (2, 0): 0}
    assert index.row((3, 0)) is None


def test_holes_are_counted_and_dated_like_their_neighbour() -> None:
    index = MemoryIndex({(1, 0): 7})
    row = index.rows[1, 0]
    index.add_holes(row, 3, 99)
    assert (index.hole_count, row.end_offset, row.lost_ranges(1_000)) == (3, 10, [(7, 10)])
    assert row.first_at_or_after(99) == 7
    assert row.first_at_or_after(100) == 10


def test_dropping_a_topic_drops_its_rows_and_no_others() -> None:
    index = MemoryIndex({(1, 0): 0, (1, 1): 0, (2, 0): 0})
    index.drop_topic(1)
    assert index.ends() == {(2, 0): 0}
