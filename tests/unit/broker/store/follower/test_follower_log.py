"""A replica's copy of the log: byte by byte, with the segments, indexes and deletions of the master."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store.disk.errors import (
    StoreBytesRefused,
    StoreFull,
    StoreInUse,
    StoreLockLost,
)
from broker.store.disk.options import StoreOptions
from broker.store.follower.follower_log import FollowerLog
from broker.store.segments.epochs import Epoch
from broker.store.segments.segment import segment_name
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.follower.follower_helpers import (
    SMALL,
    adopt_indexes,
    bases_of,
    copy_of,
    follow,
    join,
    log_of,
    open_master,
    open_replica,
)
from tests.unit.broker.store.store_helpers import NOW_MS, fill, offsets, ticking_clock


@pytest.mark.parametrize("step", [1, 60, 10**6])
def test_a_copy_in_pieces_of_any_size_is_the_master_s_log_byte_by_byte(tmp_path: Path, step: int) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 30, queues=3)
        follow(master, replica, step)
        assert log_of(tmp_path / "r") == log_of(tmp_path / "m")
        assert replica.end_position == master.written_position
        assert replica.epochs == master.epochs == (Epoch(1, 0, 1),)


def test_the_copy_goes_on_in_its_last_segment_after_a_crash(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 12)
        follow(master, replica, 70, pieces=9)
        assert 0 < replica.end_position < master.written_position
        with open_replica(copy_of(tmp_path / "r", "crashed")) as again:
            assert replica.end_position - 70 <= again.end_position <= replica.end_position
            follow(master, again)
            assert log_of(tmp_path / "crashed") == log_of(tmp_path / "m")


def test_a_master_opened_over_the_copy_has_every_message_and_goes_on(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master:
        fill(master, 30, queues=2)
        with open_replica(tmp_path / "r") as replica:
            follow(master, replica)
            adopt_indexes(master, replica)
    with open_master(tmp_path / "r", (2, 2)) as promoted:
        assert promoted.damage.report() == ()
        assert promoted.recovery.ends_flaw == ""
        assert promoted.recovery.scanned_segments <= 1
        assert offsets(promoted) == list(range(15))
        assert promoted.append(1, 0, b"next", 0) == 15
        assert promoted.epochs[-1].number == 2


def test_an_index_of_another_segment_or_of_other_bytes_is_refused(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 30)
        master.sync()
        first, second = (span.base_position for span in master.spans()[:2])
        index = master.index_bytes(first)
        assert index is not None
        with pytest.raises(StoreBytesRefused):
            replica.adopt_index(first, index)  # nothing of the segment is here yet
        follow(master, replica, 70, pieces=4)
        for base, data in ((first, index[:20]), (second, index), (first, b"\0" * 60), (7, index)):
            with pytest.raises(StoreBytesRefused):
                replica.adopt_index(base, data)
        assert not list((tmp_path / "r").glob("*.index"))


def test_bytes_that_do_not_continue_the_log_are_refused(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 12)
        follow(master, replica, 70, pieces=9)
        before, end = log_of(tmp_path / "r"), replica.end_position
        last = bases_of(tmp_path / "r")[-1]
        for position, base in ((end + 1, last), (end - 1, last), (end, last - 1), (end - 1, end - 1), (0, 0)):
            with pytest.raises(StoreBytesRefused):
                replica.append(position, base, b"x")
        replica.append(0, 0, b"")  # nothing to write is never wrong
        assert log_of(tmp_path / "r") == before


def test_the_master_s_deletions_are_repeated_and_a_promotion_misses_nothing(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 60, queues=2)
        follow(master, replica)
        adopt_indexes(master, replica)
        master.trim(master.written_position // 2)
        replica.drop_before(master.min_position)
        assert log_of(tmp_path / "r") == log_of(tmp_path / "m")
        assert replica.min_position == master.min_position > 0
        replica.drop_before(replica.end_position + 10)
        assert len(log_of(tmp_path / "r")) == 1, "the last one stays"
        first = master.min_offset(1, 0)
        copy = copy_of(tmp_path / "m", "promoted")
    with open_master(copy, (2, 2)) as promoted:
        assert promoted.damage.report() == ()
        assert promoted.min_offset(1, 0) == first


def test_a_replica_that_is_behind_what_was_deleted_goes_on_behind_the_gap(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master:
        with open_replica(tmp_path / "r") as replica:
            fill(master, 10)
            follow(master, replica)
            fill(master, 60)
            master.sync()
            master.trim(master.written_position // 2)
            assert replica.end_position < master.min_position
            follow(master, replica)
            end = replica.end_position
        with open_replica(tmp_path / "r") as replica:
            assert replica.history().end_position == end, "the gap is the master's, and no damage"
            replica.drop_before(master.min_position)
            assert log_of(tmp_path / "r") == log_of(tmp_path / "m")


def test_a_log_without_a_common_epoch_is_copied_again_as_a_whole(tmp_path: Path) -> None:
    with open_master(tmp_path / "other") as other:
        fill(other, 20)
    with open_master(tmp_path / "m", (3, 7)) as master, open_replica(tmp_path / "other") as replica:
        fill(master, 40)
        master.sync()
        master.trim(master.written_position // 2)
        assert join(master, replica) is None
        assert (replica.min_position, replica.end_position) == (master.min_position, master.min_position)
        assert replica.history() == (master.epochs, master.min_position)
        follow(master, replica)
        assert log_of(tmp_path / "other") == log_of(tmp_path / "m")


def test_a_copy_of_a_log_that_is_older_than_its_set_goes_on_after_a_lost_connection(tmp_path: Path) -> None:
    with open_master(tmp_path / "m", None) as alone:
        fill(alone, 40)
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 3)
        assert join(master, replica) is None
        follow(master, replica, 100, pieces=5)
        at = replica.end_position
        assert 0 < at < master.epochs[0].start_position
        assert join(master, replica) == at == replica.end_position
        follow(master, replica)
        assert log_of(tmp_path / "r") == log_of(tmp_path / "m")
        assert replica.history() == (master.epochs, master.written_position)


def test_a_head_stays_when_the_master_restarts_and_the_next_epoch_begins_behind_it(tmp_path: Path) -> None:
    with open_replica(tmp_path / "r") as replica:
        with open_master(tmp_path / "m") as master:
            fill(master, 12)
            master.begin_segment_now()
            follow(master, replica)
        with open_master(tmp_path / "m", (2, 1)) as master:
            assert replica.end_position == master.epochs[-1].start_position
            assert join(master, replica) == master.epochs[-1].start_position
            fill(master, 3)
            follow(master, replica)
            assert log_of(tmp_path / "r") == log_of(tmp_path / "m")
            assert replica.epochs == master.epochs


def test_a_replica_that_has_only_a_part_of_a_head_knows_the_history_of_the_segment_before(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 12, queues=5)
        master.begin_segment_now()
        follow(master, replica, 10**6, pieces=len(master.spans()) - 1)
        base = replica.end_position
        data, _ = master.log_bytes(base, 45)
        replica.append(base, base, data)
        assert replica.history() == (master.epochs, base)
        assert join(master, replica) == base
        follow(master, replica)
        assert log_of(tmp_path / "r") == log_of(tmp_path / "m")


def test_what_was_written_outside_the_set_is_not_a_part_of_its_log(tmp_path: Path) -> None:
    with open_replica(tmp_path / "r") as replica, open_master(tmp_path / "m") as master:
        fill(master, 12)
        follow(master, replica)
    with open_master(tmp_path / "r", None) as alone:
        assert alone.epochs == ()
    with open_replica(tmp_path / "r") as replica:
        assert replica.epochs == (Epoch(1, 0, 1),), "nothing was written"
    with open_master(tmp_path / "r", None) as alone:
        fill(alone, 1)
    with open_replica(tmp_path / "r") as replica:
        assert replica.epochs == ()
    with open_master(tmp_path / "r", (2, 2)) as again:
        assert [epoch.number for epoch in again.epochs] == [2]


def test_a_log_that_a_stop_sealed_goes_on_and_forgets_the_index(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master:
        fill(master, 3)
        with open_replica(tmp_path / "r") as replica:
            follow(master, replica)
        with open_master(copy_of(tmp_path / "m", "closed"), (2, 1)):
            pass  # closing it writes the index of the segment that was scanned
        fill(master, 1)
        copied = copy_of(tmp_path / "m", "again")
        (copied / "LOCK").unlink()
    closed = tmp_path / "closed"
    first = closed / f"{0:020d}.index"
    assert first.exists()
    for path in sorted(closed.glob("*.log"))[1:]:
        path.unlink()
    with open_replica(closed) as replica:
        data = (copied / f"{0:020d}.log").read_bytes()
        replica.append(replica.end_position, 0, data[replica.end_position :])
        assert not first.exists()
        assert (closed / f"{0:020d}.log").read_bytes() == data
        replica.finish_sync(replica.begin_sync())


def test_a_full_disk_leaves_the_log_as_it_was_and_works_again_with_room(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r", files) as replica:
        fill(master, 12)
        follow(master, replica, 70, pieces=9)
        end = replica.end_position
        for room in (0, 10):
            files.room = room
            with pytest.raises(StoreFull):
                follow(master, replica)
            files.room = None
            assert replica.end_position == end
        follow(master, replica)
        assert log_of(tmp_path / "r") == log_of(tmp_path / "m")


def test_the_directory_is_locked_until_the_log_is_closed(tmp_path: Path) -> None:
    replica = open_replica(tmp_path)
    with pytest.raises(StoreInUse):
        open_master(tmp_path)
    replica.close()
    replica.close()
    open_master(tmp_path).close()


def test_a_replica_whose_lock_was_taken_away_begins_and_removes_nothing(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 3)
        follow(master, replica)
        fill(master, 30)
        (tmp_path / "r" / "LOCK").unlink()
        with pytest.raises(StoreLockLost):
            replica.check_lock()
        with pytest.raises(StoreLockLost):
            follow(master, replica)
        with pytest.raises(StoreLockLost):
            replica.cut(0)


def test_the_room_that_is_kept_is_not_used_for_messages(tmp_path: Path) -> None:
    class Full(FaultyFiles):
        def allocate(self, fd: int, size: int) -> None:
            raise OSError(errno.ENOSPC, "full")

    options = StoreOptions(segment_bytes=400, reserve_bytes=1000)
    with FollowerLog.open(tmp_path, options, Full()) as replica:
        assert not replica.reserve.allocate()
        with pytest.raises(StoreFull):
            replica.append(0, 0, b"x")


def test_damage_before_the_end_is_not_a_part_of_the_copy_and_is_copied_again(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master:
        with open_replica(tmp_path / "r") as replica:
            fill(master, 30, queues=2)
            follow(master, replica)
        path = sorted((tmp_path / "r").glob("*.log"))[2]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        with open_replica(tmp_path / "r") as replica:
            at = replica.history().end_position
            assert int(path.stem) < at < int(path.stem) + len(data)
            assert replica.end_position == master.written_position
            with open_master(copy_of(tmp_path / "r", "promoted"), (2, 2)) as promoted:
                assert sum(each.n for each in promoted.damage.report()) == 1
            assert join(master, replica) == at
            follow(master, replica)
            assert log_of(tmp_path / "r") == log_of(tmp_path / "m")


def test_an_existing_broker_s_log_gets_its_first_epoch_and_stays_a_log_of_older_versions(tmp_path: Path) -> None:
    with open_master(tmp_path, None) as alone:
        fill(alone, 5)
    before = log_of(tmp_path)
    with open_master(tmp_path, (1, 1)) as master:
        assert master.epochs == (Epoch(1, sum(map(len, before.values())), 1),)
        assert {base: log_of(tmp_path)[base] for base in before} == before
        assert offsets(master) == list(range(5))


def test_a_log_outside_a_set_is_byte_by_byte_the_log_of_before(tmp_path: Path) -> None:
    for name, epoch in (("alone", None), ("set", (1, 1))):
        with FollowerLog.open(tmp_path / name, SMALL, FaultyFiles()):
            pass
        with open_master(tmp_path / name, epoch) as store:
            fill(store, 5)
    clock = ticking_clock()
    assert clock() == NOW_MS
    alone, member = log_of(tmp_path / "alone")[0], log_of(tmp_path / "set")[0]
    record = 40 + 20
    assert member[:40] == alone[:40], "an empty table of queues"
    assert member[40 + record :] == alone[40:][: len(member) - 40 - record]


def test_the_whole_segments_without_an_index_are_known_until_it_is_taken(tmp_path: Path) -> None:
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 30)
        follow(master, replica)
        finished = [int(path.stem) for path in sorted((tmp_path / "r").glob("*.log"))[:-1]]
        assert replica.without_index() == finished
        adopt_indexes(master, replica)
        assert replica.without_index() == []
    (tmp_path / "r" / segment_name(finished[0]).replace(".log", ".index")).unlink()
    with open_replica(tmp_path / "r") as replica:
        assert replica.without_index() == finished[:1]
