"""Reading due messages: in runs, as many as there is room for, and none that is not asked for."""

from __future__ import annotations

from pathlib import Path

from broker.pop.reads import read_due, read_new_messages, read_records
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore


def store_of(directory: Path, n: int = 10, segment_records: int = 500_000) -> MessageStore:
    store = MessageStore.open(directory, StoreOptions(segment_records=segment_records), lambda: 0)
    for i in range(n):
        store.append(1, 0, b"%d" % i, i % 2)
        store.flush()
    return store


def test_due_messages_are_read_wherever_they_lie(tmp_path: Path) -> None:
    with store_of(tmp_path) as store:
        found, read = read_records(store, 1, 0, [1, 2, 5, 9], max_bytes=10_000)
    assert [record.payload for record in found] == [b"1", b"2", b"5", b"9"]
    assert (read.offsets, read.gone, read.moved) == ([1, 2, 5, 9], [], None)


def test_as_many_are_read_as_there_is_room_for_and_the_one_that_fills_it(tmp_path: Path) -> None:
    with store_of(tmp_path) as store:
        assert read_due(store, 1, 0, [1, 2, 3, 5], max_bytes=90).offsets == [1, 2, 3]
        assert read_due(store, 1, 0, [1, 3], max_bytes=1).offsets == [1]


def test_messages_that_were_deleted_are_gone(tmp_path: Path) -> None:
    with store_of(tmp_path, segment_records=4) as store:
        store.sync()
        store.trim(store.spans()[0].end_position)
        low = store.min_offset(1, 0)
        read = read_due(store, 1, 0, [1, 2, low, low + 1], max_bytes=10_000)
    assert low > 2
    assert (read.gone, read.offsets) == ([1, 2], [low, low + 1])
    assert read.moved is not None
    assert (read.moved[0], read.moved[1].next_offset) == (1, low)


def test_what_a_filter_passes_over_is_behind_the_reader(tmp_path: Path) -> None:
    with store_of(tmp_path) as store:
        run = read_new_messages(store, 1, 0, 0, max_n=2, max_bytes=10_000, tag_hashes=frozenset([1]))
        none = read_new_messages(store, 1, 0, 4, max_n=2, max_bytes=10_000, tag_hashes=frozenset([7]))
        end = read_new_messages(store, 1, 0, 10, max_n=2, max_bytes=10_000)
    assert (list(run.offsets), run.upto) == ([1, 3], 4)
    assert (none.offsets, none.upto) == ((), 10)
    assert (end.offsets, end.upto) == ((), 10)
