from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from broker.store.damage import DamagedRange
from broker.store.disk.errors import StoreEpochTooLow, StoreNotWritable, StoreUnusable
from broker.store.ends import FILE_NAME
from broker.store.segments.epochs import Epoch
from model.record import iter_records
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.follower.follower_helpers import log_of, open_master
from tests.unit.broker.store.store_helpers import fill, offsets, open_store


def crashed_copy(source: Path, target: Path) -> Path:
    """Copy the directory of an open store: what a killed process leaves."""
    shutil.copytree(source, target)
    return target


def test_after_a_clean_close_nothing_is_scanned(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 20, queues=3)
    with open_store(tmp_path, segment_bytes=300) as store:
        assert store.recovery.segments > 3
        assert (store.recovery.scanned_segments, store.recovery.scanned_bytes) == (0, 0)
        assert offsets(store, 1, 0) == list(range(7))


def test_after_a_kill_only_what_was_written_since_the_last_sync_is_scanned(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", segment_bytes=1_000)
    fill(store, 100)
    store.sync()
    segments = store.statistics().segments
    fill(store, 30)
    new_segments = store.statistics().segments - segments
    directory = crashed_copy(tmp_path / "a", tmp_path / "b")
    store.close()
    with open_store(directory) as store:
        assert store.recovery.segments == segments + new_segments
        assert store.recovery.scanned_segments == new_segments + 1
        assert 30 <= store.recovery.scanned_records < 60
        assert offsets(store) == list(range(130))
    with open_store(directory) as store:
        assert store.recovery.scanned_records == 0


def test_what_recovery_found_is_durable_before_the_store_is_used(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    fill(store, 3)
    directory = crashed_copy(tmp_path / "a", tmp_path / "b")
    store.close()
    with open_store(directory) as store:
        assert store.synced_position == store.written_position
        assert len(list(directory.glob("*.index"))) == 1


def test_a_torn_write_is_cut_off_and_its_offsets_are_used_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    fill(store, 2)
    ends = (tmp_path / "a" / FILE_NAME).read_bytes()
    fill(store, 1)
    directory = crashed_copy(tmp_path / "a", tmp_path / "b")
    (directory / FILE_NAME).write_bytes(ends)  # it is written after the log, so nobody was told of the third message
    store.close()
    (segment,) = directory.glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:-5])
    with open_store(directory) as store:
        assert store.recovery.cut_bytes == 47 - 5
        assert segment.stat().st_size == len(data) - 47
        assert store.damage.report() == ()
        assert store.append(1, 0, b"new", 0) == 2
        store.flush()
        assert offsets(store) == [0, 1, 2]
    with open_store(directory) as store:
        assert offsets(store) == [0, 1, 2]


@pytest.mark.parametrize("left", [0, 20, 45])
def test_an_acknowledged_message_that_is_torn_off_is_reported_and_its_offset_is_not_used_again(
    tmp_path: Path, left: int
) -> None:
    store = open_store(tmp_path / "a")
    fill(store, 3)
    directory = crashed_copy(tmp_path / "a", tmp_path / "b")
    store.close()
    (segment,) = directory.glob("*.log")
    segment.write_bytes(segment.read_bytes()[: left - 47])
    lost = DamagedRange(segment=segment.name, topic_id=1, queue_id=0, first_offset=2, end_offset=3)
    for _ in range(2):
        with open_store(directory) as store:
            assert store.damage.collect_new() == [lost]
            assert store.damage.collect_new() == []
            assert (store.damage.count((1, 0), 0, 9), store.recovery.damaged_messages) == (1, 1)
            assert offsets(store) == [0, 1]
    with open_store(directory) as store:
        assert store.append(1, 0, b"new", 0) == 3
        store.flush()
        assert offsets(store) == [0, 1, 3]


def test_every_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=400) as store:
        fill(store, 60)
    segments = [path.name for path in sorted(tmp_path.glob("*.log"))]
    for name in (segments[0], segments[3], segments[-1]):
        (tmp_path / name).unlink()
    for _ in range(2):
        with open_store(tmp_path, segment_bytes=400) as store:
            assert [damage.segment for damage in store.damage.collect_new()] == [segments[0], segments[3], segments[-1]]


def test_with_every_segment_gone_the_queues_keep_their_places(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=400) as store:
        fill(store, 60)
        store.sync()
        store.trim(store.written_position)
        first = store.min_offset(1, 0)
        fill(store, 5)
    for path in tmp_path.glob("0*"):
        path.unlink()
    for _ in range(2):
        with open_store(tmp_path) as store:
            assert sum(damage.n for damage in store.damage.collect_new()) == 65 - first
            assert (store.min_offset(1, 0), store.max_offset(1, 0)) == (first, 65)
            assert offsets(store) == []


def test_what_retention_has_deleted_is_not_missing_whenever_the_process_dies(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", segment_bytes=400)
    fill(store, 60)
    store.sync()
    before = {path.name: path.read_bytes() for path in sorted((tmp_path / "a").glob("*.log"))}
    assert store.trim(store.written_position // 2) > 1
    done = crashed_copy(tmp_path / "a", tmp_path / "b")
    half_done = crashed_copy(tmp_path / "a", tmp_path / "c")
    store.close()
    newest_gone = sorted(before.keys() - {path.name for path in done.glob("*.log")})[-1]
    (half_done / newest_gone).write_bytes(before[newest_gone])
    for directory in (done, half_done, tmp_path / "a"):
        with open_store(directory) as store:
            assert store.damage.collect_new() == []
            assert len(offsets(store)) == 60 - store.min_offset(1, 0) < 60


def test_the_queues_of_a_topic_that_is_gone_are_not_missing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    fill(store, 3)
    store.drop_topic(1)
    store.flush()
    directory = crashed_copy(tmp_path / "a", tmp_path / "b")
    store.close()
    with open_store(directory) as store:
        assert (store.damage.collect_new(), store.queues()) == ([], [])


def test_without_the_file_of_ends_it_is_said_and_the_store_opens(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.recovery.ends_flaw == ""
        fill(store, 3)
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    for flawed, said in ((None, "is missing"), (b"", "is empty"), (content[:-1], "is damaged from byte")):
        path.unlink()
        if flawed is not None:
            path.write_bytes(flawed)
        with open_store(tmp_path) as store:
            assert said in store.recovery.ends_flaw
            assert (store.damage.collect_new(), offsets(store)) == ([], [0, 1, 2])
        with open_store(tmp_path) as store:
            assert store.recovery.ends_flaw == ""


def test_a_queue_goes_on_at_an_offset_that_something_else_proves(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 3)
        store.go_on_at(1, 0, 2)
        assert store.damage.collect_new() == []
        store.go_on_at(1, 0, 7)
        store.go_on_at(2, 0, 4)
        assert [(each.topic_id, each.first_offset, each.end_offset) for each in store.damage.collect_new()] == [
            (1, 3, 7),
            (2, 0, 4),
        ]
        assert offsets(store) == [0, 1, 2]
        fill(store, 1)
        assert offsets(store) == [0, 1, 2, 7]
        directory = crashed_copy(tmp_path, tmp_path.with_name("crashed"))
    for reopened in (directory, tmp_path):
        with open_store(reopened) as store:
            assert (store.max_offset(1, 0), store.max_offset(2, 0)) == (8, 4)
            assert offsets(store) == [0, 1, 2, 7]
            assert sum(each.n for each in store.damage.collect_new()) == 8


def test_an_empty_store_can_be_opened_any_number_of_times_without_growing(tmp_path: Path) -> None:
    for _ in range(3):
        open_store(tmp_path).close()
    assert [path.name for path in tmp_path.glob("0*")] == ["00000000000000000000.log"]


def test_queues_without_messages_keep_their_place_over_restarts(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=300) as store:
        fill(store, 20)
        store.sync()
        store.trim(store.written_position)
        assert store.min_offset(1, 0) > 0
    for _ in range(3):
        with open_store(tmp_path, segment_bytes=300) as store:
            store.sync()
            store.trim(store.written_position)
            assert store.min_offset(1, 0) == store.max_offset(1, 0) == 20
            assert store.statistics().segments == 1


def test_unfinished_files_and_indexes_without_a_segment_are_removed(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    for name in ("00000000000000000000.index", "00000000000000000099.index", "00000000000000000099.log.tmp"):
        (tmp_path / name).write_bytes(b"left over")
    open_store(tmp_path).close()
    assert sorted(path.name for path in tmp_path.glob("0*")) == ["00000000000000000000.log"]


def test_an_index_that_covers_less_than_the_segment_has_is_not_trusted(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as store:
        fill(store, 2)
        early = crashed_copy(tmp_path / "a", tmp_path / "b")
        fill(store, 2)
    open_store(early).close()
    (index,) = early.glob("*.index")
    shutil.copy(index, tmp_path / "a" / index.name)
    with open_store(tmp_path / "a") as store:
        assert store.recovery.scanned_records == 4
        assert offsets(store) == [0, 1, 2, 3]


def test_a_damaged_segment_is_reported_by_name_and_offsets_and_the_rest_is_served(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=400) as store:
        fill(store, 20)
    second = sorted(tmp_path.glob("*.log"))[1]
    second.with_suffix(".index").unlink()
    data = bytearray(second.read_bytes())
    size = len(data)
    data[-47 * 3 - 1] ^= 1
    second.write_bytes(data)
    with open_store(tmp_path) as store:
        (damage,) = store.damage.report()
        assert damage.segment == second.name
        assert damage.end_offset == damage.first_offset + 1
        assert offsets(store) == [offset for offset in range(20) if offset != damage.first_offset]
        assert (store.recovery.scanned_bytes, store.recovery.damaged_bytes) == (size, 47)
    with open_store(tmp_path) as store:
        assert store.recovery.scanned_records == 0
        assert store.damage.report() == (damage,)


def test_a_store_whose_last_segment_was_cut_short_after_a_clean_close_does_not_reuse_offsets(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 10)
    (segment,) = tmp_path.glob("*.log")
    segment.write_bytes(segment.read_bytes()[: -47 * 2 - 1])
    for _ in range(2):
        with open_store(tmp_path) as store:
            expected = DamagedRange(segment=segment.name, topic_id=1, queue_id=0, first_offset=7, end_offset=10)
            assert store.damage.report() == (expected,)
            assert store.max_offset(1, 0) == 10
            assert offsets(store) == list(range(7))
    with open_store(tmp_path) as store:
        fill(store, 1)
        assert offsets(store) == [*range(7), 10]
    with open_store(tmp_path) as store:
        assert offsets(store) == [*range(7), 10]


def test_times_do_not_go_back_over_a_restart(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 5)
        (last,) = iter_records(store.read(1, 0, 4, max_n=1, max_bytes=1000).body)
    with open_store(tmp_path) as store:  # its clock starts anew
        assert store.offset_at(1, 0, last.stored_ms) == 4
        assert store.offset_at(1, 0, last.stored_ms + 1) == 5
        fill(store, 1)
        (new,) = iter_records(store.read(1, 0, 5, max_n=1, max_bytes=1000).body)
        assert new.stored_ms == last.stored_ms


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EIO, StoreUnusable), (errno.ENOSPC, StoreUnusable), (errno.EACCES, StoreNotWritable)]
)
def test_a_disk_that_fails_during_recovery_is_an_error_and_leaves_the_directory_free(
    tmp_path: Path, number: int, kind: type[StoreUnusable]
) -> None:
    open_store(tmp_path).close()
    files = FaultyFiles()
    files.failing["rename"] = number
    with pytest.raises(kind):
        open_store(tmp_path, files)
    open_store(tmp_path).close()


def test_an_epoch_begins_with_the_new_segment_and_never_a_second_time(tmp_path: Path) -> None:
    with open_master(tmp_path, (4, 1)) as store:
        fill(store, 5)
        end = store.written_position
    with open_master(tmp_path, (6, 2)) as store:
        assert store.epochs == (Epoch(4, 0, 1), Epoch(6, end, 2))
        fill(store, 30)
    before = log_of(tmp_path)
    for number in (4, 5, 6):
        with pytest.raises(StoreEpochTooLow, match="older copy"):
            open_master(tmp_path, (number, 1))
    assert log_of(tmp_path) == before
    with open_master(tmp_path, (7, 1)) as store:
        assert [epoch.number for epoch in store.epochs] == [4, 6, 7]
        assert offsets(store) == list(range(35))


def test_a_log_that_was_continued_without_an_epoch_begins_a_new_history(tmp_path: Path) -> None:
    with open_master(tmp_path, (4, 1)) as store:
        fill(store, 5)
    with open_master(tmp_path, None) as store:
        assert store.epochs == ()
        fill(store, 1)
        end = store.written_position
    with open_master(tmp_path, (2, 1)) as store:
        assert store.epochs == (Epoch(2, end, 1),)
