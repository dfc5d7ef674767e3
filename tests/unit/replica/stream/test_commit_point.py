"""The commit point: the newest flush that all have that are waited for. Its twin is in tests/property."""

from __future__ import annotations

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
    assert (n, point.move(), point.committed, point.committed_position) == (1, True, 1, 150)
    assert not point.move()


def test_the_state_at_the_start_is_committed_once_all_have_it() -> None:
    point = waiting_for(2, 3)
    assert point.committed == -1
    for replica_id in (2, 3):
        point.acknowledged(replica_id, 0)
        point.move()
    assert (point.committed, point.committed_position) == (0, 100)


def test_a_flush_is_committed_when_the_slowest_replica_has_it() -> None:
    point = waiting_for(2, 3)
    for position in (110, 120, 130):
        point.offer(position, 0.0)
    point.acknowledged(2, 3)
    assert not point.move()
    point.acknowledged(3, 2)
    assert (point.move(), point.committed, point.committed_position) == (True, 2, 120)
    point.acknowledged(4, 3)  # a replica that is not waited for
    assert not point.move()


def test_the_age_of_the_oldest_flush_that_a_replica_lacks() -> None:
    point = waiting_for(2)
    point.offer(110, 1.0)
    point.offer(120, 2.0)
    assert [point.waiting_since(n) for n in (-1, 0, 1, 2)] == [0.0, 1.0, 2.0, float("inf")]
