"""Which compare-and-set a master makes; the laws over all orders of events are in tests/property."""

from __future__ import annotations

from dataclasses import replace

from model.replica_set import ReplicaSet
from replica.sets import create, handed_over, in_sync_with, joined, started
from replica.stream.in_sync import InSyncSet, SetWrite
from replica.stream.phases import NEVER, STAYS, Departure, ReplicaPhases


def row_of(*in_sync: int) -> ReplicaSet:
    """Replicas 1, the master, and 2."""
    row, _ = joined(create("b", "h:1", set_id=7, copies=2), "h:2")
    row = started(row, 2, "h:2")
    if 2 in in_sync:
        row = in_sync_with(row, 2, by=1, epoch=1, incarnation=1)
    return replace(row, version=5, register_id=9)


class Master:
    """An `InSyncSet` with one other replica."""

    def __init__(self, *in_sync: int) -> None:
        self.set = InSyncSet(row_of(*in_sync), 1, 1, 0.0)
        self.replica = ReplicaPhases(2, 0.0)
        self.trouble = STAYS
        self.join_at = NEVER
        self.committed = 0
        self.incarnation = 1

    def next(self, now: float) -> SetWrite | None:
        return self.set.next_write(
            *(now, {2: self.replica}, {2: self.incarnation}, self.committed),
            lambda _: self.trouble,
            lambda _: self.join_at,
        )


def newer(write: SetWrite | None) -> ReplicaSet:
    assert write is not None
    return replace(write.row, version=write.row.version + 1)


def test_the_master_waits_for_a_replica_before_it_is_written_and_writes_once_it_has_all() -> None:
    master = Master(1)
    master.join_at, master.committed = 1.0, 4
    assert (master.next(0.9), master.set.waits_for) == (None, ())
    assert (master.next(1.0), master.set.waits_for) == (None, (2,))
    master.replica.acked_n = 4
    write = master.next(1.1)
    assert newer(write).in_sync == (1, 2)
    assert master.next(1.2) is None  # one write at a time
    master.set.written(newer(write), 1.3)
    assert (master.set.waits_for, master.set.candidate, master.set.in_sync_since(2)) == ((2,), 0, 1.3)


def test_a_candidate_in_trouble_is_not_waited_for_any_more() -> None:
    master = Master(1)
    master.join_at = 0.0
    master.committed = 1
    master.next(0.0)
    master.trouble = Departure(1.0, "it is slow")
    assert (master.next(1.0), master.set.waits_for) == (None, ())


def test_the_master_waits_for_a_replica_until_its_removal_is_written() -> None:
    master = Master(1, 2)
    master.trouble = Departure(3.0, "its connection is closed")
    assert master.next(2.9) is None
    write = master.next(3.0)
    assert write is not None
    assert write.reason == "replica 2 leaves: its connection is closed"
    assert (newer(write).in_sync, master.set.waits_for) == ((1,), (2,))
    assert master.set.written(newer(write), 3.1) == (2,)
    assert master.set.waits_for == ()


def test_a_lost_answer_is_read_and_the_master_waits_until_that_write_cannot_be_made_any_more() -> None:
    master = Master(1)
    master.join_at, master.replica.acked_n = 0.0, 0
    assert master.next(0.0) is not None
    master.set.lost()
    assert (master.set.must_read, master.next(0.1), master.set.waits_for) == (True, None, (2,))
    master.set.read(master.set.row, 0.2)  # not made yet, but perhaps later
    master.trouble = Departure(0.0, "it is gone")
    write = master.next(0.3)
    assert write is not None
    assert (write.row, master.set.waits_for) == (master.set.row, (2,))
    master.set.written(newer(write), 0.4)
    assert master.set.waits_for == ()


def test_a_replica_that_has_started_again_is_not_added_for_its_old_process() -> None:
    master = Master(1)
    master.join_at, master.replica.acked_n, master.incarnation = 0.0, 0, 3
    assert (master.next(0.0), master.set.waits_for) == (None, ())


def test_a_deposed_master_writes_nothing() -> None:
    master = Master(1, 2)
    master.set.saw(newer(SetWrite(handed_over(master.set.row, 2, by=1, epoch=1), "")), 1.0)
    master.trouble = Departure(0.0, "it is gone")
    assert (master.set.is_master, master.next(2.0)) == (False, None)
    master.set.saw(row_of(1, 2), 3.0)  # an older row
    assert not master.set.is_master
