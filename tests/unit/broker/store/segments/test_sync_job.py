from __future__ import annotations

import errno
import threading
from pathlib import Path

from broker.store.segments.index import MemoryIndex
from broker.store.segments.index_file import HEADER_BYTES, decode_header
from broker.store.segments.segment import Segment
from broker.store.segments.sync_job import SegmentSync, SyncJob
from tests.unit.broker.store.disk.faulty_files import FaultyFiles


def make_job(directory: Path, files: FaultyFiles, *, with_index: bool = True) -> SyncJob:
    index = MemoryIndex({(1, 0): 5})
    item = SegmentSync(
        segment=Segment(base_position=7, size=100, index=index),
        fd=files.open(directory / "7.log", create=True),
        size=100,
        index=index if with_index else None,
        index_path=directory / "7.index",
        last_stored_ms=3,
    )
    return SyncJob(files, 107, [item], directory)


def test_a_job_syncs_the_records_then_writes_the_index(tmp_path: Path) -> None:
    files = FaultyFiles()
    job = make_job(tmp_path, files)
    job.run()
    assert (job.error, job.index_error) == (None, None)
    assert files.calls["sync"] == 2
    assert files.calls["sync_directory"] == 1
    header = job.work[0].header
    assert header == decode_header((tmp_path / "7.index").read_bytes()[:HEADER_BYTES])
    assert header is not None
    assert (header.base_position, header.covered_bytes) == (7, 100)


def test_running_twice_does_the_work_once(tmp_path: Path) -> None:
    files = FaultyFiles()
    job = make_job(tmp_path, files)
    threads = [threading.Thread(target=job.run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.calls["sync"] == 2


def test_no_index_is_written_for_records_that_are_perhaps_not_durable(tmp_path: Path) -> None:
    for operation in ("sync", "sync_directory"):
        files = FaultyFiles()
        files.failing[operation] = errno.EIO
        job = make_job(tmp_path, files)
        job.run()
        assert job.error is not None
        assert job.error.errno == errno.EIO
        assert not (tmp_path / "7.index").exists()


def test_an_index_that_cannot_be_written_does_not_make_the_records_less_durable(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.room = 0
    job = make_job(tmp_path, files)
    job.run()
    assert job.error is None
    assert job.index_error is not None
    assert job.work[0].header is None


def test_the_jobs_descriptors_are_closed_also_after_a_failure(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.failing["sync"] = errno.EIO
    job = make_job(tmp_path, files, with_index=False)
    job.run()
    assert job.work[0].fd is None
