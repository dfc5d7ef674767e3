from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreReadFailed
from broker.store.message_store import MessageStore
from broker.store.segments.moving import worth_moving
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import open_store

KEPT, OTHER = (7, 0), (1, 0)


def filled(store: MessageStore, *segments: str) -> None:
    """Fill a segment for each text: a `k` is a message of the queue that is kept, a dot one of another queue."""
    for segment in segments:
        for letter in segment:
            store.append(*(KEPT if letter == "k" else OTHER), b"x" * 1_000, 0)
            store.flush()


def chosen(store: MessageStore, kept: list[int], before: int | None = None) -> list[int]:
    return worth_moving(store.log, KEPT, kept, store.newest_base_position if before is None else before)


def test_the_example_of_the_header(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_records=10) as store:
        filled(store, "kkkkkkkk..", "kkkkkkkk..", ".")
        assert chosen(store, [0]) == [0], "they are copied, the first segment goes"
        assert chosen(store, [*range(8), 8, 9]) == [*range(8), 8, 9], "the first alone does not pay, both do"
        assert chosen(store, [*range(16)]) == []


def test_the_fewest_segments_are_taken(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_records=10) as store:
        filled(store, "k.........", "k.........", ".")
        assert chosen(store, [0, 1]) == [0]


def test_nothing_is_copied_for_segments_that_are_not_to_go(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_records=10) as store:
        filled(store, "..........", "k.........", "k........")
        [first, second, last] = store.spans()
        assert chosen(store, [0, 1], first.end_position) == []
        assert chosen(store, [0, 1], second.end_position) == [0]
        assert chosen(store, [0, 1], last.end_position) == [0], "the segment that is written stays"


def test_messages_that_are_gone_already_cost_nothing_and_are_named(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_records=10) as store:
        filled(store, "kkkkkkkkkk", "k.........", ".")
        store.sync()
        store.trim(store.spans()[0].end_position)
        assert chosen(store, [*range(11)]) == [*range(11)]


def test_an_index_that_cannot_be_read_is_an_error_of_the_store(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, segment_records=10, index_cache_bytes=0) as store:
        filled(store, "k.........", "k.........", ".")
        store.sync()
        files.failing["pread"] = errno.EIO
        with pytest.raises(StoreReadFailed, match="check the disk"):
            chosen(store, [0])
        files.failing.clear()
