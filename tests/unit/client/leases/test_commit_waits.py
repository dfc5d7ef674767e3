"""Which offsets no pull has taken along in time."""

from __future__ import annotations

from dataclasses import dataclass

from client.leases.commit_waits import CommitWaits
from model.limits import COMMIT_WAIT_S


@dataclass(eq=False)
class Queue:
    unsent: bool = True


def test_a_queue_waits_for_a_pull_and_no_longer() -> None:
    waits: CommitWaits[Queue] = CommitWaits()
    assert waits.next_deadline() is None
    waits.add(queue := Queue(), 10.0)
    assert waits.next_deadline() == 10 + COMMIT_WAIT_S
    assert waits.remove_due(10.05) == []
    assert waits.remove_due(10 + COMMIT_WAIT_S) == [queue]
    assert waits.next_deadline() is None


def test_a_queue_whose_pull_was_in_time_is_not_due_and_waits_again_for_the_next_one() -> None:
    waits: CommitWaits[Queue] = CommitWaits()
    waits.add(queue := Queue(), 10.0)
    queue.unsent = False
    assert waits.next_deadline() is None
    queue.unsent = True
    waits.add(queue, 10.08)
    assert waits.next_deadline() == 10.08 + COMMIT_WAIT_S


def test_a_queue_that_waits_again_goes_behind_those_that_have_waited() -> None:
    waits: CommitWaits[Queue] = CommitWaits()
    busy, quiet = Queue(), Queue()
    waits.add(busy, 10.0)
    waits.add(quiet, 10.02)
    waits.add(busy, 10.05)
    assert waits.next_deadline() == 10.02 + COMMIT_WAIT_S


def test_one_queue_that_is_due_takes_all_along_that_are_unsent() -> None:
    waits: CommitWaits[Queue] = CommitWaits()
    due, sent, later = Queue(), Queue(), Queue()
    for number, queue in enumerate((due, sent, later)):
        waits.add(queue, 10 + number / 100)
    sent.unsent = False
    assert waits.remove_due(10 + COMMIT_WAIT_S) == [due, later]
    assert waits.next_deadline() is None
