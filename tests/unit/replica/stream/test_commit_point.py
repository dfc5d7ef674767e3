"""The commit point: the newest flush that all have that are waited for. Its twin is in tests/property."""

from __future__ import annotations

from model.errors import NotMaster, ReplicationTimeout, RlabError
from model.replica_limits import REPLICATION_TIMEOUT_S
from replica.stream.commit_point import CommitPoint


def waiting_for(*replica_ids: int) -> CommitPoint:
    """A point at the beginning of a mastership whose log ends at 100."""
    point = CommitPoint(100, 0.0)
    point.set_waits_for(replica_ids, {})
    point.move()
    return point


def test_without_other_replicas_a_flush_is_committed_as_it_is_made() -> None:
    point = waiting_for()
    assert (point.committed, point.committed_position) == (0, 100)
    n = point.offer(150, 1.0)
    assert (n, point.committed, point.committed_position) == (1, 1, 150)
    called: list[RlabError | None] = []
    point.wait(n, 1.0, called.append)
    assert called == [None]


def test_what_was_there_at_the_start_is_committed_once_all_have_it() -> None:
    point = waiting_for(2, 3)
    assert point.committed == -1
    for replica_id in (2, 3):
        point.acknowledged(replica_id, 0)
        point.move()
    assert (point.committed, point.committed_position) == (0, 100)


def test_a_flush_is_answered_when_the_slowest_replica_has_it_in_the_order_of_flushes() -> None:
    point = waiting_for(2, 3)
    called: list[int] = []
    for position in (110, 120, 130):
        n = point.offer(position, 0.0)
        point.wait(n, 0.0, lambda failure, n=n: called.append(n))  # type: ignore[misc]
    point.acknowledged(2, 3)
    point.move()
    assert called == []
    point.acknowledged(3, 2)
    point.move()
    assert (called, point.committed_position) == ([1, 2], 120)
    point.acknowledged(4, 3)  # a replica that is not waited for
    point.move()
    assert called == [1, 2]


def test_a_request_that_waits_too_long_gets_an_answer_that_leaves_open_what_happened() -> None:
    point = waiting_for(2)
    called: list[RlabError | None] = []
    point.wait(point.offer(110, 1.0), 1.0, called.append)
    assert point.next_deadline == 1.0 + REPLICATION_TIMEOUT_S
    point.expire(point.next_deadline)
    [error] = called
    assert isinstance(error, ReplicationTimeout)
    assert "replicas 2" in str(error)
    point.acknowledged(2, 1)
    point.move()
    assert (point.committed, called) == (1, [error])


def test_a_deposed_master_answers_all_that_wait() -> None:
    point = waiting_for(2)
    called: list[RlabError | None] = []
    point.wait(point.offer(110, 1.0), 1.0, called.append)
    error = NotMaster("another one is")
    point.fail(error)
    assert called == [error]


def test_with_acks_of_the_master_alone_nothing_waits_and_what_others_have_is_counted() -> None:
    point = waiting_for(2)
    point.answers_at_once = True
    called: list[RlabError | None] = []
    point.wait(point.offer(110, 1.0), 1.0, called.append)
    assert (called, point.committed, point.waiting_since(-1)) == ([None], -1, 0.0)


def test_the_age_of_the_oldest_flush_that_a_replica_lacks() -> None:
    point = waiting_for(2)
    point.offer(110, 1.0)
    point.offer(120, 2.0)
    assert (point.oldest_at, point.waiting_since(0), point.waiting_since(1), point.waiting_since(2)) == (
        *(0.0, 1.0, 2.0, float("inf")),
    )
