from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store.disk.options import StoreOptions
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import ENTRY, MemoryIndex
from broker.store.segments.scan import encode_queue_table
from model.record import encode_record
from tests.unit.broker.store.disk.faulty_files import FaultyFiles

HEAD = encode_queue_table({}, 0)
RECORD = encode_record(1, 0, 0, 5, 0, 0, 0, b"payload")


def make_log(directory: Path, files: FaultyFiles, *, open_files: int = 4) -> CommitLog:
    return CommitLog(directory, files, StoreOptions(open_files=open_files))


def begin(log: CommitLog, *, durable: bool = False) -> None:
    base = log.written_position if log.segments else 0
    log.begin_segment(base, HEAD, MemoryIndex({}), now_ms=0, durable=durable)


def sync(log: CommitLog, *, finish_active: bool = False) -> None:
    job = log.begin_sync(finish_active=finish_active)
    job.run()
    assert job.error is None
    log.finish_sync(job)


def test_positions_go_on_from_segment_to_segment(tmp_path: Path) -> None:
    log = make_log(tmp_path, FaultyFiles())
    begin(log)
    log.append(RECORD)
    begin(log)
    log.append(RECORD)
    assert log.min_position == 0
    assert log.active.base_position == len(HEAD + RECORD)
    assert log.written_position == 2 * len(HEAD + RECORD)
    assert [log.read(segment, 1000, 0) for segment in log.segments] == [HEAD + RECORD] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [segment.name for segment in log.segments]
    log.close()


def test_a_failed_append_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = make_log(tmp_path, files)
    begin(log)
    files.room = 10
    with pytest.raises(OSError, match="No space left"):
        log.append(RECORD)
    files.room = None
    assert log.read(log.active, 1000, 0) == HEAD
    log.append(RECORD)
    assert log.read(log.active, 1000, 0) == HEAD + RECORD
    log.close()


def test_what_a_failed_append_left_is_cut_off_before_anything_else_is_written(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = make_log(tmp_path, files)
    begin(log)
    files.room = len(RECORD) + 10
    files.failing["truncate"] = errno.EIO
    with pytest.raises(OSError, match="No space left"):
        log.append(RECORD + RECORD)
    files.room = None
    assert log.read(log.active, 1000, 0) != HEAD
    with pytest.raises(OSError, match="Input/output"):
        log.append(RECORD)
    del files.failing["truncate"]
    log.append(b"short")
    assert log.read(log.active, 1000, 0) == HEAD + b"short"
    log.close()


@pytest.mark.parametrize("operation", ["open", "pwrite", "rename"])
def test_a_segment_that_cannot_be_made_leaves_the_old_one_active(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    log = make_log(tmp_path, files)
    begin(log)
    log.append(RECORD)
    files.failing[operation] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        begin(log)
    files.failing.clear()
    assert len(list(tmp_path.glob("*.log"))) == 1
    log.append(RECORD)
    begin(log)
    assert log.active.base_position == len(HEAD + RECORD + RECORD)
    log.close()


def test_finished_segments_get_an_index_file_and_are_closed_once_synced(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = make_log(tmp_path, files)
    begin(log)
    index = log.active.index
    assert isinstance(index, MemoryIndex)
    index.add_row((1, 0), 0).entries += ENTRY.pack(len(HEAD), len(RECORD), 0, 5)
    log.append(RECORD)
    begin(log)
    assert log.unfinished_count == 2
    sync(log)
    first, second = log.segments
    assert (first.fd, log.unfinished_count) == (None, 1)
    assert second.fd is not None
    assert (tmp_path / first.index_name).exists()
    assert not (tmp_path / second.index_name).exists()
    assert log.synced_position == log.written_position
    assert log.ends(first) == {(1, 0): 1}
    assert log.read(first, 1000, 0) == HEAD + RECORD
    log.close()


def test_the_active_segment_gets_an_index_only_when_it_is_finished_and_has_records(tmp_path: Path) -> None:
    log = make_log(tmp_path, FaultyFiles())
    begin(log)
    sync(log, finish_active=True)
    assert not list(tmp_path.glob("*.index"))
    log.append(RECORD)
    log.active.record_count = 1
    sync(log)
    assert not list(tmp_path.glob("*.index"))
    sync(log, finish_active=True)
    assert len(list(tmp_path.glob("*.index"))) == 1
    log.close()


def test_the_directory_is_synced_only_after_a_new_segment(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = make_log(tmp_path, files)
    begin(log)
    sync(log)
    assert files.calls["sync_directory"] == 1
    log.append(RECORD)
    sync(log)
    assert files.calls["sync_directory"] == 1
    log.close()


def test_an_index_of_a_segment_that_was_removed_in_between_does_not_stay(tmp_path: Path) -> None:
    log = make_log(tmp_path, FaultyFiles())
    begin(log)
    log.append(RECORD)
    begin(log, durable=True)
    job = log.begin_sync()
    log.remove_oldest()
    job.run()
    log.finish_sync(job)
    assert [path.name for path in tmp_path.iterdir()] == [log.active.name]
    log.close()


def test_descriptors_of_a_sync_that_cannot_begin_are_closed(tmp_path: Path) -> None:
    class OneDuplicate(FaultyFiles):
        def duplicate(self, fd: int) -> int:
            if self.calls["duplicate"]:
                self.failing["duplicate"] = errno.EMFILE
            return super().duplicate(fd)

    files = OneDuplicate()
    log = make_log(tmp_path, files)
    begin(log)
    begin(log)
    before = next_descriptor(tmp_path)
    with pytest.raises(OSError, match="Too many open files"):
        log.begin_sync()
    assert next_descriptor(tmp_path) == before
    log.close()


def next_descriptor(directory: Path) -> int:
    """Return the number that the next file opened would get."""
    with (directory / "probe").open("w") as probe:
        return probe.fileno()


def test_no_more_files_stay_open_than_the_option_says(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = make_log(tmp_path, files, open_files=2)
    for _ in range(5):
        begin(log)
        log.append(RECORD)
    begin(log)
    sync(log)
    for segment in log.segments[:5]:
        assert log.read(segment, 1000, 0) == HEAD + RECORD
    opened = files.calls["open"]
    log.read(log.segments[4], 1, 0)
    log.read(log.segments[3], 1, 0)
    assert files.calls["open"] == opened
    log.read(log.segments[0], 1, 0)
    assert files.calls["open"] == opened + 1
    log.close()


@pytest.mark.parametrize(("spoil", "open_files"), [("damage", 4), ("remove", 1)])
def test_an_index_file_that_went_bad_is_rebuilt_and_written_again(tmp_path: Path, spoil: str, open_files: int) -> None:
    log = make_log(tmp_path, FaultyFiles(), open_files=open_files)
    begin(log)
    index = log.active.index
    assert isinstance(index, MemoryIndex)
    index.add_row((1, 0), 0).entries += ENTRY.pack(len(HEAD), len(RECORD), 0, 5)
    log.append(RECORD)
    begin(log)
    sync(log)
    path = tmp_path / log.segments[0].index_name
    good = path.read_bytes()
    if spoil == "damage":
        path.write_bytes(good[:-1] + b"\xff")
    else:
        path.unlink()
        log.read(log.segments[0], 1, 0)  # takes the only place for an open file
    row = log.row(log.segments[0], (1, 0))
    assert row is not None
    assert list(ENTRY.iter_unpack(row.entries)) == [(len(HEAD), len(RECORD), 0, 5)]
    log.segments[0].last_stored_ms = 5
    sync(log)
    assert len(path.read_bytes()) == len(good)
    assert log.unfinished_count == 1
    row = log.row(log.segments[0], (1, 0))
    assert row is not None
    assert row.end_offset == 1
    assert log.unfinished_count == 1
    log.close()
