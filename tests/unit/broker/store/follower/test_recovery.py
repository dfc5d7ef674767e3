"""The opening of a replica's log: what is trusted, what is read, and what is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.store.disk.options import StoreOptions
from broker.store.follower.recovery import FollowerRecovery, epochs_in
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.segment import segment_name
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.follower.follower_helpers import adopt_indexes, follow, log_of, open_master, open_replica
from tests.unit.broker.store.store_helpers import fill


def opened(directory: Path) -> tuple[CommitLog, dict[int, int], FaultyFiles]:
    files = FaultyFiles()
    log = CommitLog(directory, files, StoreOptions())
    recovery = FollowerRecovery(log)
    recovery.run()
    log.close()
    return log, recovery.damaged, files


@pytest.fixture(params=[True, False], ids=["with indexes", "without"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 30)
        follow(master, replica)
        if request.param:
            adopt_indexes(master, replica)
    return tmp_path / "r"


def test_a_whole_log_has_no_damage_and_stays_as_it_is(directory: Path) -> None:
    before = log_of(directory)
    log, damaged, _ = opened(directory)
    assert damaged == {}
    assert [segment.base_position for segment in log.segments] == sorted(before)
    assert log_of(directory) == before


def test_only_segments_without_an_index_are_read(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 100)
        follow(master, replica)
        unread = opened_bytes(tmp_path / "r")
        adopt_indexes(master, replica)
    assert opened_bytes(tmp_path / "r") < unread


def opened_bytes(directory: Path) -> int:
    class Counting(FaultyFiles):
        n_bytes = 0

        def pread(self, fd: int, length: int, position: int) -> bytes:
            data = super().pread(fd, length, position)
            self.n_bytes += len(data)
            return data

    files = Counting()
    log = CommitLog(directory, files, StoreOptions())
    FollowerRecovery(log).run()
    log.close()
    return files.n_bytes


def test_a_torn_tail_is_cut_off_and_a_last_segment_that_is_nothing_else_is_removed(directory: Path) -> None:
    last = sorted(log_of(directory))[-1]
    path = directory / segment_name(last)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-30:])
    assert opened(directory)[1] == {}
    assert path.read_bytes() == whole
    path.write_bytes(whole[:30])
    log, damaged, _ = opened(directory)
    assert (log.written_position, damaged) == (last, {})
    assert not path.exists()


def test_damage_that_records_follow_is_reported_and_stays(directory: Path) -> None:
    last = sorted(log_of(directory))[-1]
    path = directory / segment_name(last)
    data = path.read_bytes()
    first = int.from_bytes(data[:4], "big")
    path.write_bytes(data[: first + 20] + b"\xff" + data[first + 21 :])
    assert opened(directory)[1] == {last: last + first}
    assert len(path.read_bytes()) == len(data)


def test_a_segment_that_ends_before_the_next_one_is_damaged_unless_its_index_says_so(directory: Path) -> None:
    bases = sorted(log_of(directory))
    path = directory / segment_name(bases[1])
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    damaged = opened(directory)[1]
    assert list(damaged) == [bases[1]]
    assert bases[1] < damaged[bases[1]] < bases[2]


def test_a_segment_that_is_gone_is_damage_of_the_one_before_it_if_that_has_no_index(directory: Path) -> None:
    bases = sorted(log_of(directory))
    (directory / segment_name(bases[1])).unlink()
    (directory / segment_name(bases[0]).replace(".log", ".index")).unlink(missing_ok=True)
    assert opened(directory)[1] == {bases[0]: bases[1]}


def test_the_epochs_of_a_log_are_read_without_opening_it(tmp_path: Path) -> None:
    def read() -> list[int]:
        before = log_of(tmp_path)
        found = [epoch.number for epoch in epochs_in(tmp_path, FaultyFiles())]
        assert log_of(tmp_path) == before
        return found

    assert read() == []
    for epoch, expected in (((4, 1), [4]), ((6, 2), [4, 6]), (None, [])):
        with open_master(tmp_path, epoch) as store:
            fill(store, 30)
            assert [each.number for each in store.epochs] == expected
        assert read() == expected
