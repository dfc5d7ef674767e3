"""The log as the master sends it: flushed bytes, one segment at a time."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreReadFailed
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.follower.follower_helpers import log_of, open_master
from tests.unit.broker.store.store_helpers import fill


def test_the_pieces_of_every_size_make_the_files(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 30)
        for step in (1, 7, 100, 10**6):
            found: dict[int, bytes] = {}
            position = store.min_position
            while position < store.written_position:
                data, base = store.log_bytes(position, step)
                assert base <= position
                assert 0 < len(data) <= step
                found[base] = found.get(base, b"") + data
                position += len(data)
            assert found == log_of(tmp_path)


def test_there_are_no_bytes_at_the_end_and_none_that_are_only_buffered(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 3)
        store.append(1, 0, b"buffered", 0)
        assert store.log_bytes(store.written_position, 100) == (b"", store.newest_base_position)


def test_bytes_that_were_deleted_are_passed_over_to_the_oldest_segment(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 40)
        store.sync()
        store.trim(store.written_position // 2)
        data, base = store.log_bytes(3, 50)
        assert (base, len(data)) == (store.min_position, 50)
        assert base > 3


def test_an_index_is_there_once_its_segment_is_finished_and_durable(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 15)
        first, last = store.spans()[0].base_position, store.spans()[-1].base_position
        assert store.index_bytes(first) is None
        store.sync()
        assert store.index_bytes(first) == (tmp_path / f"{first:020d}.index").read_bytes()
        assert store.index_bytes(last) is None
        assert store.index_bytes(first + 1) is None


def test_a_disk_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_master(tmp_path, files=files) as store:
        fill(store, 15)
        store.sync()
        files.failing["pread"] = errno.EIO
        with pytest.raises(StoreReadFailed):
            store.log_bytes(0, 10)
        with pytest.raises(StoreReadFailed):
            store.index_bytes(0)
        files.failing.clear()


def test_a_segment_that_is_shorter_than_it_was_is_an_error_and_no_short_piece(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 2)
        path = tmp_path / f"{store.newest_base_position:020d}.log"
        path.write_bytes(path.read_bytes()[:50])
        with pytest.raises(StoreReadFailed):
            store.log_bytes(0, 100)
