"""The syncs of a replica's log: what they make durable, and what a failure means."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreReadOnly, StoreSyncFailed
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.follower.follower_helpers import copy_of, follow, open_master, open_replica
from tests.unit.broker.store.store_helpers import fill


def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    class Failing(FaultyFiles):
        fails = False

        def sync(self, fd: int) -> None:
            if self.fails:
                raise OSError(errno.EIO, "broken")

    files = Failing()
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r", files) as replica:
        fill(master, 2)
        follow(master, replica)
        files.fails = True
        with pytest.raises(StoreSyncFailed):
            replica.finish_sync(replica.begin_sync())
        files.fails = False
        fill(master, 2)
        with pytest.raises(StoreReadOnly):
            follow(master, replica)
        with pytest.raises(StoreReadOnly):
            replica.begin_sync()


def test_a_job_that_was_left_is_finished_by_the_next_one(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 5)
        follow(master, replica)
        left = replica.begin_sync()
        fill(master, 5)
        follow(master, replica)
        replica.finish_sync(replica.begin_sync())
        replica.finish_sync(left)
        assert replica.synced_position == replica.end_position


def test_the_copy_of_an_index_is_the_master_s_file_and_is_written_once_its_segment_is_durable(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 30)
        follow(master, replica)
        master.sync()
        first = master.spans()[0].base_position
        name = f"{first:020d}.index"
        replica.adopt_index(first, master.index_bytes(first) or b"")
        assert not (tmp_path / "r" / name).exists()
        job = replica.begin_sync()
        job.run()
        replica.finish_sync(job)
        assert replica.synced_position == job.position == replica.end_position
        assert (tmp_path / "r" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()


def test_the_first_sync_makes_the_names_durable_that_a_killed_process_has_left(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 30)
        follow(master, replica)
        files = FaultyFiles()
        with open_replica(copy_of(tmp_path / "r", "killed"), files) as again:
            for expected in (1, 0):
                before = files.calls["sync_directory"]
                again.finish_sync(again.begin_sync())
                assert files.calls["sync_directory"] - before == expected
