"""Each promise of a replica set: a history that keeps it, and one that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.message_queue import MessageQueue
from model.replica_set import NO_MASTER, Acks, ReplicaSet
from replica.sets import create, in_sync_with, joined, started
from testbed.simulation.checks.replicas import CopyOfLog, ReplicaCheck, ServingMaster

NAME, QUEUE = "broker-a", MessageQueue("orders", "broker-a", 0)


def pair() -> ReplicaSet:
    row, _ = joined(create(NAME, "h1:1", set_id=7), "h2:1")
    return replace(in_sync_with(started(row, 2, "h2:1"), 2, by=1, epoch=1, incarnation=1), version=3, register_id=9)


ROW = pair()
MASTER = CopyOfLog(replica_id=1, in_sync=True, segments={0: b"abcd", 4: b"ef"}, tables={"topics": [(1, "orders")]})
OTHER = replace(MASTER, replica_id=2)


def kinds(check: ReplicaCheck) -> list[str]:
    """The kind and the invariant of each violation."""
    return [" ".join(line.split()[:2]) for line in check.violations]


def test_each_master_needs_a_higher_epoch_and_no_epoch_has_two() -> None:
    check = ReplicaCheck()
    check.elected(NAME, 1, 1)
    check.elected(NAME, 2, 2)
    check.elected("broker-b", 1, 1)
    assert check.violations == []
    check.elected(NAME, 1, 2)
    check.elected(NAME, 2, 1)
    assert kinds(check) == ["two-masters: I1:", "two-masters: I1:"]


def test_a_cut_goes_back_at_most_to_what_was_committed() -> None:
    check = ReplicaCheck()
    check.committed(NAME, 100, epoch=1)
    check.committed(NAME, 150, epoch=2)
    check.cut(NAME, 2, 100, epoch=1)  # of what epoch 2 has committed, this one had nothing
    assert check.violations == []
    check.cut(NAME, 2, 99, epoch=1)
    assert kinds(check) == ["committed-cut: I3:"]
    accepted = ReplicaCheck()
    accepted.committed(NAME, 100, epoch=1)
    accepted.accepted_loss(NAME)
    accepted.cut(NAME, 2, 0, epoch=1)
    assert accepted.violations == []


def test_readers_see_only_what_is_committed_unless_the_master_alone_acknowledges() -> None:
    check = ReplicaCheck()
    check.shown(ROW, 100, 100)
    check.shown(replace(ROW, acks=Acks.MASTER), 101, 100)
    assert check.violations == []
    check.shown(ROW, 101, 100)
    assert kinds(check) == ["seen-and-lost: I7:"]


def test_the_newest_token_of_a_broker_never_goes_back() -> None:
    check = ReplicaCheck()
    check.granted(NAME, 7)
    check.granted(NAME, 7)
    check.granted("broker-b", 3)
    assert check.violations == []
    check.granted(NAME, 6)
    assert kinds(check) == ["went-back: I8:"]


def test_an_offset_has_one_message_for_good() -> None:
    check = ReplicaCheck()
    check.placed(QUEUE, 5, b"one", seen=False)
    check.placed(QUEUE, 5, b"one", seen=True)
    assert check.violations == []
    check.placed(QUEUE, 5, b"other", seen=True)
    assert kinds(check) == ["went-back: I8:"]


def test_ends_and_rows_never_go_back() -> None:
    check = ReplicaCheck()
    check.ended(QUEUE, 5)
    check.ended(QUEUE, 6)
    check.check(ROW, [])
    assert check.violations == []
    check.ended(QUEUE, 5)
    check.check(replace(ROW, version=2), [])
    assert kinds(check) == ["went-back: I8:", "went-back: I8:"]


def test_a_master_waits_for_all_that_the_register_has_in_sync() -> None:
    check = ReplicaCheck()
    waits = ServingMaster(replica_id=1, epoch=1, waits_for=(2,))
    deposed = ServingMaster(replica_id=2, epoch=1, waits_for=())
    check.check(ROW, [waits, deposed])
    assert check.violations == []
    check.check(ROW, [replace(waits, waits_for=())])
    assert kinds(check) == ["not-waited-for: I10:"]


def test_copies_are_equal_at_rest() -> None:
    check = ReplicaCheck()
    check.rested(ROW, [MASTER, OTHER])
    check.rested(ROW, [MASTER, replace(OTHER, in_sync=False, segments={})])
    check.rested(replace(ROW, master=NO_MASTER), [MASTER, replace(OTHER, segments={})])
    check.rested(ROW, [MASTER, replace(OTHER, segments={4: b"ef"})])  # its master has deleted the first one later
    assert check.violations == []


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (replace(OTHER, segments={0: b"abcd", 4: b"e"}), "missing-copy: I4:"),
        (replace(OTHER, segments={0: b"abXd", 4: b"ef"}), "logs-differ: I5:"),
        (replace(OTHER, segments={0: b"abcdef"}), "logs-differ: I5:"),
        (replace(OTHER, tables={"topics": []}), "tables-differ: I6:"),
    ],
)
def test_a_copy_that_differs_is_found(other: CopyOfLog, kind: str) -> None:
    check = ReplicaCheck()
    check.rested(ROW, [MASTER, other])
    assert kinds(check) == [kind]


def test_what_a_consumer_has_seen_is_there_for_good() -> None:
    check = ReplicaCheck()
    check.placed(QUEUE, 1, b"sent", seen=False)
    check.placed(QUEUE, 2, b"seen", seen=True)
    check.stored({(QUEUE, 2): b"seen"})
    assert check.violations == []
    check.stored({(QUEUE, 1): b"sent"})
    assert kinds(check) == ["seen-and-lost: I7:"]


def test_handovers_alone_cost_nothing() -> None:
    check = ReplicaCheck()
    check.handovers_only(0, 0)
    assert check.violations == []
    check.handovers_only(1, 0)
    assert kinds(check) == ["handover-cost: I12:"]


def test_a_start_that_finds_an_illegal_state_is_found() -> None:
    check = ReplicaCheck()
    check.started_badly(NAME, 2, "its log has a gap")
    assert check.violations == ["bad-start: I11: replica 2 of broker-a: its log has a gap"]


def test_two_masters_that_may_serve_at_the_same_moment_are_found() -> None:
    check = ReplicaCheck()
    check.may_serve(NAME, [])
    check.may_serve(NAME, [2])
    assert check.violations == []
    check.may_serve(NAME, [1, 2])
    assert kinds(check) == ["two-masters: I1:"]


def test_a_master_answers_nothing_after_a_later_one_has_begun() -> None:
    check = ReplicaCheck()
    check.elected(NAME, 1, 1)
    check.elected(NAME, 2, 2)
    check.answered(NAME, 2, 2, "SEND_MESSAGE")
    check.answered("broker-b", 1, 1, "SEND_MESSAGE")
    assert check.violations == []
    check.answered(NAME, 1, 1, "SEND_MESSAGE")
    assert kinds(check) == ["deposed-answer: I9:"]
