"""A cut of the log is done or not, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.store.disk.errors import StoreBytesRefused, StoreCutUnreadable, StoreReadOnly, StoreUnusable
from broker.store.disk.read_only import ReadOnlyFiles
from broker.store.ends import FILE_NAME as ENDS_NAME
from broker.store.ends import decode_ends
from broker.store.follower.cut import CUT_NAME, Cut, begin_cut
from broker.store.follower.follower_log import FollowerLog
from broker.store.follower.salvage import salvage_numbers, salvaged_records
from broker.store.message_store import MessageStore
from broker.store.segments.segment import segment_name
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.follower.follower_helpers import (
    SMALL,
    EndingFiles,
    EndingPowerCutFiles,
    ProcessEnded,
    adopt_indexes,
    copy_of,
    cut_to,
    follow,
    log_of,
    open_master,
    open_replica,
)
from tests.unit.broker.store.store_helpers import fill, offsets

Log = dict[int, bytes]
Act = Callable[[FollowerLog], None]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A master and its replica; the oldest segment is deleted, and some segments of the replica have an index."""
    root = tmp_path_factory.mktemp("cut")
    with open_master(root / "m") as master, open_replica(root / "r") as log:
        master.name_topic(1, b"orders")
        fill(master, 23)
        follow(master, log)
        adopt_indexes(master, log)
        master.trim(master.spans()[1].base_position)
        log.drop_before(master.min_position)
        fill(master, 11)
        follow(master, log)
    return root / "m", root / "r"


@pytest.fixture
def replica(directories: tuple[Path, Path]) -> Path:
    return directories[1]


@pytest.fixture
def former_master(directories: tuple[Path, Path]) -> Path:
    """Its file of ends has the end of each queue, which a cut takes away."""
    return directories[0]


def inside(log: Log, number: int) -> int:
    """The end of a record in the middle of a segment."""
    base = sorted(log)[number]
    return base + len(log[base]) - 47 * 2


def every_end(directory: Path, act: Act, power: int = 0) -> Iterator[Path]:
    """Copies of the directory as an act leaves them that is ended after its first change, its second, and so on."""
    for left in range(10**3):
        here = copy_of(directory, "here")
        files = EndingPowerCutFiles(None) if power else EndingFiles(None)
        log = FollowerLog.open(here, SMALL, files)
        files.left = left
        try:
            act(log)
        except ProcessEnded:
            pass
        else:
            files.left = None
            log.close()
            assert left > 2, "the act has changed nothing"
            return
        for seed in range(max(power, 1)):
            left_behind = copy_of(here, "left")
            if isinstance(files, EndingPowerCutFiles):
                for folder in [here, *here.glob("salvage/*")]:
                    files.cut(folder, left_behind / folder.relative_to(here), Random(seed + 2))
            yield left_behind
        files.left = None
        log.close()


def check_legal(directory: Path, states: list[Log]) -> Log:
    """A log and a store open over the directory, and have one of these logs; returns it."""
    store_directory = copy_of(directory, "store")
    with open_replica(directory) as log:
        assert log.history().end_position == log.end_position
    found = log_of(directory)
    assert found in states
    assert not (directory / CUT_NAME).exists()
    with open_master(store_directory, (2, 2)) as store:
        assert store.damage.report() == ()
        new = store.epochs[-1].start_position
        assert cut_to(log_of(store_directory), new) == cut_to(found, new)
        held = sum(data.count(b"payload") for data in found.values())
        assert store.max_offset(1, 0) == (store.min_offset(1, 0) + held if found else 0)
        assert offsets(store) == list(range(store.min_offset(1, 0), store.max_offset(1, 0)))
    assert not (store_directory / CUT_NAME).exists()
    return found


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
@pytest.mark.parametrize(("number", "salvage"), [(1, False), (1, True), (-1, False)])
def test_a_cut_that_is_interrupted_anywhere_is_done_or_not(
    replica: Path, number: int, salvage: bool, power: int
) -> None:
    before = log_of(replica)
    position = inside(before, number)
    after = cut_to(before, position)
    gone = {offset for base, data in before.items() for offset in offsets_in(data) if offset not in kept_in(after)}
    seen = set()
    for left in every_end(replica, lambda log: log.cut(position, salvage=salvage), power):
        found = check_legal(left, [before, after])
        seen.add(len(found))
        if salvage and found == after:
            kept = {record.record.queue_offset for record in salvaged_records(left, 1)}
            assert kept == gone
        elif not salvage:
            assert salvage_numbers(left, FaultyFiles()) == []
    assert seen == {len(before), len(after)}


def offsets_in(data: bytes) -> list[int]:
    """Queue offsets of the messages in bytes of a log."""
    found, at = [], data.find(b"payload")
    while at >= 0:
        found.append(int.from_bytes(data[at - 24 : at - 16], "big"))
        at = data.find(b"payload", at + 1)
    return found


def kept_in(log: Log) -> set[int]:
    return {offset for data in log.values() for offset in offsets_in(data)}


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
def test_the_ends_that_a_former_master_has_noted_are_not_missed_after_its_cut(former_master: Path, power: int) -> None:
    before = log_of(former_master)
    position = inside(before, -1)
    after = cut_to(before, position)
    for left in every_end(former_master, lambda log: log.cut(position), power):
        if log_of(left) == after and not power and not (left / CUT_NAME).exists():
            assert decode_ends((left / ENDS_NAME).read_bytes()).position <= position
        check_legal(left, [before, after])


def test_a_cut_that_is_done_is_not_done_again_after_a_power_cut(replica: Path) -> None:
    here = copy_of(replica, "here")
    before = log_of(here)
    position = inside(before, 1)
    base = sorted(before)[1]
    files = EndingPowerCutFiles(None)
    with open_replica(here, files) as log:
        log.cut(position)
        log.append(position, base, before[base][position - base :])
        log.finish_sync(log.begin_sync())
        for seed in range(10):
            left = copy_of(here, "left")
            files.cut(here, left, Random(seed))
            with open_replica(left) as again:
                assert again.history().end_position == base + len(before[base])


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
def test_a_cut_between_two_segments_keeps_the_index_of_the_first(replica: Path, power: int) -> None:
    before = log_of(replica)
    position = sorted(before)[2]
    after = cut_to(before, position)
    for left in every_end(replica, lambda log: log.cut(position), power):
        check_legal(left, [before, after])
        assert (left / segment_name(sorted(before)[1]).replace(".log", ".index")).exists()


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
@pytest.mark.parametrize("salvage", [False, True], ids=["discard", "salvage"])
def test_a_log_that_is_discarded_is_there_or_not(replica: Path, salvage: bool, power: int) -> None:
    before = log_of(replica)
    for left in every_end(replica, lambda log: log.restart_at(10**6, salvage=salvage), power):
        found = check_legal(left, [before, {}])
        if salvage and not found:
            assert {record.record.queue_offset for record in salvaged_records(left, 1)} == kept_in(before)


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
def test_deletions_of_the_master_that_are_interrupted_leave_a_shorter_log(replica: Path, power: int) -> None:
    before = log_of(replica)
    bases = sorted(before)
    states = [{base: before[base] for base in bases[n:]} for n in range(3)]
    for left in every_end(replica, lambda log: log.drop_before(bases[2] + 5), power):
        check_legal(left, states)


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
def test_a_segment_whose_replacement_is_interrupted_is_the_old_or_the_new_one(replica: Path, power: int) -> None:
    right = log_of(replica)
    base = sorted(right)[1]
    damaged_directory = copy_of(replica, "damaged")
    path = damaged_directory / segment_name(base)
    path.write_bytes(right[base][:150] + b"\xff" * 20 + right[base][170:])
    damaged = log_of(damaged_directory)
    seen = set()
    for left in every_end(damaged_directory, lambda log: log.replace_segment(base, [right[base]]), power):
        with open_replica(left) as log:
            found = log_of(left)
            assert found in (damaged, right)
            if found == right:
                assert log.history().end_position == log.end_position
        seen.add(found == right)
        with open_master(left, (2, 2)) as store:
            assert sum(each.n for each in store.damage.report()) <= (found == damaged)
    assert power or seen == {True, False}


@pytest.mark.parametrize("power", [0, 2], ids=["killed", "power cut"])
def test_an_append_that_is_interrupted_leaves_whole_records_of_the_master_s_log(tmp_path: Path, power: int) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as log:
        fill(master, 5)
        follow(master, log)
        fill(master, 14)

        def act(log: FollowerLog) -> None:
            follow(master, log, 90)
            adopt_indexes_of(log)

        def adopt_indexes_of(log: FollowerLog) -> None:
            master.sync()
            for span in master.spans()[:-1]:
                data = master.index_bytes(span.base_position)
                assert data is not None
                log.adopt_index(span.base_position, data)
            log.finish_sync(log.begin_sync())

        log.close()
        whole = log_of(tmp_path / "m")
        for left in every_end(tmp_path / "r", act, power):
            with open_replica(left) as again:
                end = again.history().end_position
                assert cut_to(log_of(left), end) == cut_to(whole, end)
                again.cut(end)
                follow(master, again)
                assert log_of(left) == whole


def test_a_cut_ends_the_log_there_and_can_be_repeated(replica: Path) -> None:
    here = copy_of(replica, "once")
    before = log_of(here)
    position = inside(before, 1)
    with open_replica(here) as log:
        with pytest.raises(StoreBytesRefused):
            log.cut(log.end_position + 1)
        log.cut(log.end_position)
        assert log_of(here) == before
        for _ in range(2):
            log.cut(position)
            assert log.end_position == log.history().end_position == position
            assert log_of(here) == cut_to(before, position)


def test_a_disk_that_fails_in_a_cut_ends_this_log_and_the_next_opening_does_the_cut(replica: Path) -> None:
    class Failing(FaultyFiles):
        fails = False

        def truncate(self, fd: int, size: int) -> None:
            if self.fails and size > 0:
                raise OSError(5, "broken")
            super().truncate(fd, size)

    here, files = copy_of(replica, "failing"), Failing()
    position = inside(log_of(here), 1)
    with open_replica(here, files) as log:
        files.fails = True
        with pytest.raises(StoreUnusable):
            log.cut(position)
        with pytest.raises(StoreReadOnly):
            log.append(position, position, b"x")
    files.fails = False
    with open_replica(here) as log:
        assert log.end_position == position


def test_a_damaged_marker_stops_every_opening(replica: Path) -> None:
    here = copy_of(replica, "marker")
    (here / CUT_NAME).write_bytes(b'{"position": 5')
    for opening in (open_replica, open_master):
        with pytest.raises(StoreCutUnreadable):
            opening(here)


def test_a_directory_within_a_cut_can_be_verified_and_stays_as_it_is(replica: Path, tmp_path: Path) -> None:
    here = copy_of(replica, "verified")
    begin_cut(here, FaultyFiles(), Cut(position=inside(log_of(here), 1), salvage=1))
    before = {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}
    with MessageStore.open(here, SMALL, lambda: 0, ReadOnlyFiles(tmp_path)) as store:
        assert store.damage.report() == ()
    assert {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()} == before
