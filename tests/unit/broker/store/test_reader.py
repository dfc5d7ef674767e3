from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreReadFailed
from broker.store.read_result import ReadStatus
from model.record import iter_records
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import NOW_MS, fill, offsets, open_store


def test_old_records_are_read_from_the_files_with_one_system_call_for_neighbours(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0) as store:
        fill(store, 40, queues=4)
        before = files.calls["pread"]
        result = store.read(1, 2, 0, max_n=10, max_bytes=2**20)
        assert files.calls["pread"] == before + 1
        records = list(iter_records(result.body, check_crc=True))
        assert [record.tag_hash for record in records] == list(range(2, 40, 4))
        assert (result.status, result.n, result.next_offset) == (ReadStatus.FOUND, 10, 10)


@pytest.mark.parametrize(("between", "calls"), [(10_000, 1), (20_000, 3)])
def test_records_that_lie_far_apart_are_fetched_apart(tmp_path: Path, between: int, calls: int) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0) as store:
        for _ in range(3):
            for _ in range(2):
                store.append(1, 0, b"wanted", 0)
            store.append(1, 1, bytes(between), 0)
        store.flush()
        before = files.calls["pread"]
        assert store.read(1, 0, 0, max_n=10, max_bytes=2**20).n == 6
        assert files.calls["pread"] == before + calls


def test_one_system_call_fetches_no_more_than_is_good_for_the_memory(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0) as store:
        fill(store, 5, payload=bytes(50 * 1024))
        before = files.calls["pread"]
        assert store.read(1, 0, 0, max_n=10, max_bytes=2**20).n == 5
        assert files.calls["pread"] == before + 3  # two, two and one


def test_a_filter_is_applied_in_the_index_and_the_scan_is_bounded(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0, scan_records=8) as store:
        fill(store, 30)
        wanted = frozenset({20, 21})
        before = files.calls["pread"]
        result = store.read(1, 0, 0, max_n=10, max_bytes=2**20, tag_hashes=wanted)
        assert (result.status, result.body, result.next_offset) == (ReadStatus.NO_MATCH, b"", 8)
        assert files.calls["pread"] == before
        result = store.read(1, 0, 16, max_n=10, max_bytes=2**20, tag_hashes=wanted)
        assert (result.status, result.n, result.next_offset) == (ReadStatus.FOUND, 2, 24)


def test_a_read_ends_with_its_segment_and_goes_on_in_the_next(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0, segment_bytes=500) as store:
        fill(store, 50)
        assert store.statistics().segments > 4
        assert 1 < store.read(1, 0, 0, max_n=50, max_bytes=2**20).n < 20
        assert offsets(store) == list(range(50))
        assert offsets(store, start=33) == list(range(33, 50))


def test_a_record_that_went_bad_is_skipped_and_reported(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0) as store:
        fill(store, 5)
        (segment,) = tmp_path.glob("*.log")
        data = bytearray(segment.read_bytes())
        data[-47 * 2 - 1] ^= 1
        segment.write_bytes(data)
        assert offsets(store) == [0, 1, 3, 4]
        (damage,) = store.damage.report()
        assert (damage.segment, damage.first_offset, damage.end_offset) == (segment.name, 2, 3)
        result = store.read(1, 0, 2, max_n=1, max_bytes=2**20)
        assert (result.status, result.n, result.next_offset) == (ReadStatus.FOUND, 1, 4)


def test_a_run_of_bad_records_is_passed_over_in_bounded_steps(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0, scan_records=4) as store:
        fill(store, 10)
        (segment,) = tmp_path.glob("*.log")
        with segment.open("r+b") as file:
            file.truncate(segment.stat().st_size - 47 * 9)
        result = store.read(1, 0, 1, max_n=1, max_bytes=2**20)
        assert (result.status, result.next_offset) == (ReadStatus.NO_MATCH, 5)
        assert offsets(store) == [0]


def test_a_record_longer_than_the_limit_is_returned_alone(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0) as store:
        fill(store, 3, payload=bytes(500))
        assert store.read(1, 0, 0, max_n=9, max_bytes=100).n == 1
        assert store.read(1, 0, 0, max_n=9, max_bytes=1080).n == 2
        assert store.read(1, 0, 0, max_n=9, max_bytes=1079).n == 1


def test_a_whole_record_in_the_place_of_another_is_not_served(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=500) as store:
        fill(store, 60)
    _, second, third, *_ = sorted(tmp_path.glob("*.log"))
    shutil.copy(third, second)
    with open_store(tmp_path) as store:
        assert store.damage.report() == ()
        found = offsets(store)
        (damage,) = store.damage.report()
        assert damage.segment == second.name
        assert found == [*range(damage.first_offset), *range(damage.end_offset, 60)]


def test_damage_that_is_found_while_an_index_is_rebuilt_is_reported(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=500) as store:
        fill(store, 60)
    with open_store(tmp_path) as store:
        second = sorted(tmp_path.glob("*.log"))[1]
        second.with_suffix(".index").unlink()
        data = bytearray(second.read_bytes())
        data[-47 * 3 - 1] ^= 1
        second.write_bytes(data)
        found = offsets(store)
        (damage,) = store.damage.report()
        assert damage.segment == second.name
        assert found == [offset for offset in range(60) if offset != damage.first_offset]


def test_what_is_lost_at_the_end_of_a_segment_while_its_index_is_rebuilt_is_reported(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=500) as store:
        fill(store, 60)
    with open_store(tmp_path) as store:
        second = sorted(tmp_path.glob("*.log"))[1]
        second.with_suffix(".index").unlink()
        with second.open("r+b") as file:
            file.truncate(second.stat().st_size - 1)
        found = offsets(store)
        (damage,) = store.damage.report()
        assert (damage.segment, damage.end_offset) == (second.name, damage.first_offset + 1)
        assert found == [offset for offset in range(60) if offset != damage.first_offset]


def test_reading_goes_on_after_the_segment_that_was_read_last_is_trimmed(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0, segment_bytes=500) as store:
        fill(store, 50)
        store.sync()
        assert store.read(1, 0, 0, max_n=1, max_bytes=1000).n == 1
        store.trim(store.written_position // 2)
        assert offsets(store) == list(range(store.min_offset(1, 0), 50))


def test_an_error_of_the_disk_is_raised_and_not_taken_for_damage(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0) as store:
        fill(store, 3)
        files.failing["pread"] = errno.EIO
        with pytest.raises(StoreReadFailed, match="Input/output"):
            store.read(1, 0, 0, max_n=9, max_bytes=100)
        files.failing.clear()
        assert offsets(store) == [0, 1, 2]
        assert store.damage.report() == ()


def test_a_time_is_found_in_any_segment(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0, segment_bytes=500) as store:
        fill(store, 50, queues=2)
        store.append(1, 9, b"late", 0)
        store.flush()
        times = {
            record.queue_offset: record.stored_ms
            for offset in range(25)
            for record in iter_records(store.read(1, 0, offset, max_n=1, max_bytes=2**20).body)
        }
        assert [store.offset_at(1, 0, times[offset]) for offset in range(25)] == list(range(25))
        assert [store.offset_at(1, 0, times[offset] + 1) for offset in range(25)] == list(range(1, 26))
        assert store.offset_at(1, 0, 0) == 0
        assert store.offset_at(1, 0, NOW_MS * 2) == 25
        assert store.offset_at(1, 9, 0) == store.offset_at(1, 9, times[24]) == 0
        assert store.offset_at(7, 7, 0) == 0


def test_a_time_that_cannot_be_looked_up_is_an_error(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, segment_bytes=300, index_cache_bytes=0) as store:
        fill(store, 20)
        store.sync()
        files.failing["pread"] = errno.EIO
        with pytest.raises(StoreReadFailed):
            store.offset_at(1, 0, NOW_MS)
        files.failing.clear()
