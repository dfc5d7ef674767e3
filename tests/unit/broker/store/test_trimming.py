from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreReadFailed, StoreWriteFailed
from tests.unit.broker.store.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import fill, open_store

EVERYTHING = 2**62


def test_spans_are_the_segments_end_to_end_with_the_time_of_their_newest_message(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 30)
        spans = store.spans()
        assert len(spans) == store.statistics().segments > 3
        assert [span.base_position for span in spans[1:]] == [span.end_position for span in spans[:-1]]
        assert spans[-1].end_position == store.written_position
        assert spans[-1].base_position == store.newest_base_position
        assert [span.newest_ms for span in spans] == sorted(span.newest_ms for span in spans)


def test_times_of_segments_are_known_after_a_restart(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 30)
        before = store.spans()
    with open_store(tmp_path, segment_bytes=300) as store:
        assert store.spans()[: len(before)] == before


@pytest.mark.parametrize("synced", [False, True])
def test_the_first_segment_that_is_needed_is_the_one_with_the_lowest_offset_wanted(
    tmp_path: Path, synced: bool
) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 40, queues=2)
        if synced:
            store.sync()
        removable = store.spans()[:-1]
        # Queue 1 of topic 1 is consumed up to n, nobody has asked for the other one.
        for wanted in range(0, 20, 5):
            needed = store.first_needed({(1, 1): wanted}, EVERYTHING)
            holding = [span for span in removable if needed and span.base_position >= needed.position]
            if needed is None:
                continue
            assert needed.key == (1, 1)
            with open_store(tmp_path / f"copy {wanted}", segment_bytes=300) as copy:
                fill(copy, 40, queues=2)
                copy.sync()
                copy.trim(needed.position)
                assert copy.min_offset(1, 1) <= wanted
                copy.trim(holding[0].end_position)
                assert copy.min_offset(1, 1) > wanted
        assert store.first_needed({(1, 1): 20}, EVERYTHING) is None
        assert store.first_needed({(9, 9): 0}, EVERYTHING) is None
        assert store.first_needed({}, EVERYTHING) is None


def test_segments_that_are_not_about_to_go_are_not_looked_at(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, segment_bytes=300, index_cache_bytes=0) as store:
        fill(store, 30)
        store.sync()
        first, second, *_ = store.spans()
        reads = files.calls["pread"]
        assert store.first_needed({(1, 0): 25}, second.end_position) is None
        assert files.calls["pread"] - reads <= 2
        assert store.first_needed({(1, 0): 0}, first.end_position - 1) is None


def test_an_index_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, segment_bytes=300, index_cache_bytes=0) as store:
        fill(store, 30)
        store.sync()
        files.failing["pread"] = errno.EIO
        with pytest.raises(StoreReadFailed, match="check the disk"):
            store.first_needed({(1, 0): 0}, EVERYTHING)
        files.failing.clear()


def test_the_space_of_removed_files_is_given_back_by_whoever_is_given_their_descriptors(tmp_path: Path) -> None:
    given: list[int] = []
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 30)
        store.sync()
        low, high = store.spans()[0].base_position, store.spans()[3].end_position
        assert store.trim(high, given.append) == len(given) == 4
        assert store.spans()[0].base_position == high
    assert [os.fstat(fd).st_nlink for fd in given] == [0] * 4  # no name is left, and the bytes still are
    assert sum(os.fstat(fd).st_size for fd in given) == high - low
    for fd in given:
        os.close(fd)


def test_a_file_that_cannot_be_removed_costs_no_descriptor(tmp_path: Path) -> None:
    files, given = FaultyFiles(), list[int]()
    with open_store(tmp_path, files, segment_bytes=300) as store:
        fill(store, 30)
        store.sync()
        files.failing["remove"] = errno.EIO
        with pytest.raises(StoreWriteFailed):
            store.trim(EVERYTHING, given.append)
        files.failing.clear()
        assert len(given) == 1
        os.close(given.pop())
