from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreInUse, StoreReadFailed, StoreWriteFailed
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadStatus
from model.record import iter_records
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import fill, offsets, open_store

EVERYTHING = 2**62


def test_a_message_comes_back_with_everything_it_was_stored_with(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, StoreOptions(), lambda: 1234) as store:
        store.append(1, 0, b"payload", -7, flags=3, times_delivered=2)
        store.flush()
        (record,) = iter_records(store.read(1, 0, 0, max_n=32, max_bytes=1000).body, check_crc=True)
    assert record == (0, 1234, -7, 3, 2, b"payload")


@pytest.mark.parametrize("tail_bytes", [0, 10**6])
def test_the_status_says_where_an_offset_lies(tmp_path: Path, tail_bytes: int) -> None:
    with open_store(tmp_path, segment_bytes=200, tail_bytes=tail_bytes) as store:
        fill(store, 20)
        store.sync()
        store.trim(store.written_position // 2)
        low, high = store.min_offset(1, 0), store.max_offset(1, 0)
        assert 0 < low < high == 20

        def read(offset: int) -> tuple[ReadStatus, int, int, int]:
            result = store.read(1, 0, offset, max_n=1, max_bytes=1000)
            return result.status, result.next_offset, result.min_offset, result.max_offset

        assert read(low - 1) == (ReadStatus.OFFSET_TOO_SMALL, low, low, high)
        assert read(low) == (ReadStatus.FOUND, low + 1, low, high)
        assert read(high - 1) == (ReadStatus.FOUND, high, low, high)
        assert read(high) == (ReadStatus.NO_NEW, high, low, high)
        assert read(high + 1) == (ReadStatus.OFFSET_TOO_BIG, high, low, high)


def test_a_queue_that_never_had_a_message_is_empty(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        statuses = [store.read(1, 0, offset, max_n=1, max_bytes=100).status for offset in (-1, 0, 1)]
        assert statuses == [ReadStatus.OFFSET_TOO_SMALL, ReadStatus.NO_NEW, ReadStatus.OFFSET_TOO_BIG]
        assert (store.min_offset(1, 0), store.max_offset(1, 0), store.queues()) == (0, 0, [])


@pytest.mark.parametrize("tail_bytes", [0, 10**6])
def test_a_body_keeps_to_its_limit_of_bytes_and_of_messages(tmp_path: Path, tail_bytes: int) -> None:
    with open_store(tmp_path, tail_bytes=tail_bytes) as store:
        fill(store, 10)  # 47 bytes each
        sizes = [store.read(1, 0, 0, max_n=4, max_bytes=limit).n for limit in (1, 47, 93, 94, 188, 10_000)]
        assert sizes == [1, 1, 1, 2, 4, 4]


@pytest.mark.parametrize("tail_bytes", [0, 10**6])
def test_a_filter_skips_and_moves_on(tmp_path: Path, tail_bytes: int) -> None:
    with open_store(tmp_path, tail_bytes=tail_bytes) as store:
        fill(store, 10)
        result = store.read(1, 0, 0, max_n=4, max_bytes=1000, tag_hashes=frozenset({3, 7}))
        assert [record.tag_hash for record in iter_records(result.body)] == [3, 7]
        assert (result.status, result.next_offset) == (ReadStatus.FOUND, 10)
        result = store.read(1, 0, 4, max_n=4, max_bytes=1000, tag_hashes=frozenset({3}))
        assert (result.status, result.body, result.next_offset) == (ReadStatus.NO_MATCH, b"", 10)


def test_messages_survive_a_restart_and_offsets_go_on(tmp_path: Path) -> None:
    for start in (0, 6, 12):
        with open_store(tmp_path, segment_bytes=200) as store:
            assert store.max_offset(1, 0) == start
            fill(store, 6)
            assert offsets(store) == list(range(start + 6))


def test_what_was_not_flushed_is_discarded_by_close(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 1)
        store.append(1, 0, b"never flushed", 0)
        store.append(2, 0, b"never flushed", 0)
    with open_store(tmp_path) as store:
        assert store.queues() == [(1, 0)]
        assert offsets(store) == [0]


def test_closing_twice_is_harmless_and_frees_the_directory(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StoreInUse):
        open_store(tmp_path)
    store.close()
    store.close()
    open_store(tmp_path).close()


def test_trim_removes_whole_segments_and_moves_the_oldest_offsets(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 30, queues=2)
        store.sync()
        segments = store.statistics().segments
        assert store.trim(299) == 0
        assert store.trim(700) == 2
        statistics = store.statistics()
        assert (statistics.segments, len(list(tmp_path.glob("*.index")))) == (segments - 2, segments - 3)
        assert statistics.min_position <= 700
        for queue_id in (0, 1):
            assert store.min_offset(1, queue_id) > 0
            assert offsets(store, 1, queue_id) == list(range(store.min_offset(1, queue_id), 15))
        low = store.min_offset(1, 0)
    with open_store(tmp_path) as store:
        assert store.min_offset(1, 0) == low
        assert offsets(store) == list(range(low, 15))


def test_trim_keeps_the_last_segment_that_is_durable(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 6)
        assert store.statistics().segments == 2
        assert store.trim(2**62) == 0
        store.sync()
        assert store.trim(2**62) == 1
        assert store.trim(2**62) == 0
        fill(store, 1)
        assert offsets(store) == list(range(store.min_offset(1, 0), 7))


def test_a_trim_that_fails_half_way_counts_for_what_it_removed(tmp_path: Path) -> None:
    class OneRemoval(FaultyFiles):
        def remove(self, path: Path) -> None:
            super().remove(path)
            if path.suffix == ".index" and self.calls["duplicate"]:
                self.failing["remove"] = errno.EIO

    files = OneRemoval()
    with open_store(tmp_path, files, segment_bytes=300) as store:
        fill(store, 30)
        store.sync()
        with pytest.raises(StoreWriteFailed, match="cannot remove old segments"):
            store.trim(2**62)
        low = store.min_offset(1, 0)
        assert 0 < low < 30
        assert offsets(store) == list(range(low, 30))
        files.failing.clear()


def test_statistics_are_a_picture_that_does_not_change(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        before = store.statistics()
        fill(store, 3, queues=2)
        after = store.statistics()
        assert (before.queues, after.queues) == (0, 2)
        assert (after.segments, after.unfinished_segments, after.min_position) == (1, 1, 0)
        assert after.written_position == before.written_position + 3 * 47
        assert after.synced_position == before.written_position
        assert after.tail_bytes > before.tail_bytes == 0
        assert (store.damage.report(), store.damage.unlisted_count) == ((), 0)


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


def test_the_space_of_removed_files_is_given_back_by_anyone_who_is_given_their_descriptors(tmp_path: Path) -> None:
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
