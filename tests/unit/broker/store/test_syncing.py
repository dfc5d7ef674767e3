from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store.disk.directory import LOCK_NAME
from broker.store.disk.errors import StoreFull, StoreLockLost, StoreReadOnly, StoreSyncFailed
from broker.store.message_store import MessageStore
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import fill, offsets, open_store


def test_the_synced_position_follows_the_written_one_when_a_job_is_finished(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 2)
        written = store.written_position
        job = store.begin_sync()
        assert job.position == written
        fill(store, 1)
        job.run()
        assert store.synced_position < written
        store.finish_sync(job)
        assert store.synced_position == written < store.written_position


def fail_a_sync(store: MessageStore, files: FaultyFiles) -> None:
    files.failing["sync"] = errno.EIO
    with pytest.raises(StoreSyncFailed, match=r"Input/output error.*after position.*restart the broker"):
        store.sync()
    del files.failing["sync"]


def test_after_a_failed_sync_nothing_is_called_durable_and_nothing_is_written(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = open_store(tmp_path, files)
    fill(store, 3)
    synced = store.synced_position
    fail_a_sync(store, files)
    with pytest.raises(StoreReadOnly, match="takes no more writes since a sync failed"):
        store.sync()
    store.append(1, 0, b"more", 0)
    with pytest.raises(StoreReadOnly):
        store.flush()
    assert store.max_offset(1, 0) == 3
    assert offsets(store) == [0, 1, 2]
    assert store.synced_position == synced
    store.close()
    assert not list(tmp_path.glob("*.index"))
    with open_store(tmp_path) as store:
        assert store.recovery.scanned_records == 3


def test_an_abandoned_job_is_taken_note_of_by_the_next(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 1)
        abandoned = store.begin_sync()
        fill(store, 1)
        job = store.begin_sync()
        assert store.synced_position == abandoned.position
        job.run()
        store.finish_sync(abandoned)
        store.finish_sync(job)
        assert store.synced_position == store.written_position


def test_the_failure_of_an_abandoned_job_is_not_lost(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = open_store(tmp_path, files)
    fill(store, 1)
    files.failing["sync"] = errno.EIO
    store.begin_sync().run()
    del files.failing["sync"]
    with pytest.raises(StoreSyncFailed):
        store.begin_sync()
    with pytest.raises(StoreReadOnly):
        store.begin_sync()
    store.close()


def test_a_store_is_closed_although_its_last_sync_fails(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = open_store(tmp_path, files)
    fill(store, 1)
    files.failing["sync"] = errno.EIO
    with pytest.raises(StoreSyncFailed):
        store.close()
    store.close()
    with open_store(tmp_path) as store:
        assert offsets(store) == [0]


def test_being_out_of_descriptors_is_not_a_failed_disk(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        fill(store, 1)
        files.failing["duplicate"] = errno.EMFILE
        with pytest.raises(StoreSyncFailed, match="cannot prepare"):
            store.sync()
        del files.failing["duplicate"]
        fill(store, 1)
        store.sync()
        assert store.synced_position == store.written_position


def test_a_store_that_shows_only_what_is_synced_shows_what_a_job_covers_when_it_is_finished(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0) as store:
        store.show_only_synced()
        fill(store, 2)
        assert (store.max_offset(1, 0), offsets(store)) == (0, [])
        job = store.begin_sync()
        fill(store, 3)
        job.run()
        assert store.max_offset(1, 0) == 0
        store.finish_sync(job)
        assert offsets(store) == [0, 1]
        store.sync()
        assert offsets(store) == [0, 1, 2, 3, 4]
    with open_store(tmp_path) as store:
        assert offsets(store) == [0, 1, 2, 3, 4]


def test_what_is_held_back_stays_so_after_a_failed_sync_and_after_a_refused_batch(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = open_store(tmp_path, files)
    store.show_only_synced()
    fill(store, 1)
    store.sync()
    fill(store, 2)
    files.room = 0
    store.append(1, 0, b"too much", 0)
    with pytest.raises(StoreFull):
        store.flush()
    files.room = None
    assert store.append(1, 0, b"in its place", 0) == 3
    store.flush()
    fail_a_sync(store, files)
    assert offsets(store) == [0]
    assert store.max_offset(1, 0) == 1
    store.close()


def test_a_segment_that_was_begun_in_between_continues_where_the_file_ends_and_not_where_readers_are(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path, segment_records=2) as store:
        store.show_only_synced()
        fill(store, 7)
        assert store.max_offset(1, 0) == 0
        store.sync()
        assert offsets(store) == [*range(7)]
    with open_store(tmp_path) as store:
        assert offsets(store) == [*range(7)]
        assert store.damage.report() == ()


def test_a_store_that_shows_what_is_committed_shows_nothing_for_a_sync(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_records=2) as store:
        fill(store, 2)
        store.show_only_committed()
        assert offsets(store) == [0, 1]
        fill(store, 1)
        first = store.written_position
        fill(store, 2)
        store.sync()
        assert (store.max_offset(1, 0), store.settled_position < first) == (2, True)
        store.show(first)
        assert (offsets(store), store.settled_position) == ([0, 1, 2], first)
        store.show(store.written_position)
        assert offsets(store) == [0, 1, 2, 3, 4]
        assert store.settled_position == store.written_position


def test_what_was_written_before_its_commit_is_known_counts_from_then_on_although_it_was_held_for_a_sync(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path) as store:
        store.show_only_synced()
        fill(store, 1)
        store.show_only_committed()
        store.sync()
        assert offsets(store) == []
        store.show(store.written_position)
        assert offsets(store) == [0]


def test_the_end_of_a_queue_is_written_down_when_it_is_shown_and_a_start_finds_all_of_the_log(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.show_only_committed()
        fill(store, 3)
        assert store._ends.load().ends == {}  # type: ignore[union-attr]  # there is a file
        store.show(store.written_position)
        assert store._ends.load().ends == {(1, 0): 3}  # type: ignore[union-attr]
        fill(store, 2)
    with open_store(tmp_path) as store:
        assert offsets(store) == [0, 1, 2, 3, 4]
        assert store.damage.report() == ()


def names_and_contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_store_whose_lock_file_is_gone_begins_no_segment_and_writes_no_file_by_its_name(tmp_path: Path) -> None:
    store = open_store(tmp_path, segment_records=4)
    fill(store, 10)  # three segments, no index yet
    (tmp_path / LOCK_NAME).unlink()
    names = set(names_and_contents(tmp_path))
    fill(store, 2)  # the file that is open is filled; without the lock, another segment is not begun
    store.append(1, 0, b"more", 0)
    with pytest.raises(StoreLockLost, match="another broker may write there now"):
        store.flush()
    with pytest.raises(StoreLockLost):
        store.trim(store.written_position)
    with pytest.raises(StoreLockLost):
        store.sync()
    assert offsets(store) == list(range(12))
    before = names_and_contents(tmp_path)
    store.close()
    assert set(before) == names
    assert names_and_contents(tmp_path) == before
    with open_store(tmp_path) as store:
        assert offsets(store) == list(range(12))
