"""The requests for locks that wait, as a table."""

from __future__ import annotations

from typing import NamedTuple

from broker.leases.leaseless.parked_locks import ParkedLocks
from broker.leases.table import QueueKey
from model.limits import MAX_PARKED_LOCKS

FIRST, SECOND = ("g", QueueKey("t", 0)), ("g", QueueKey("t", 1))


class One(NamedTuple):
    """A request that waits."""

    name: str
    until: float


def test_requests_are_taken_when_their_queue_is_free_or_their_time_is_over() -> None:
    locks: ParkedLocks[One] = ParkedLocks()
    first, later, other = One("first", 1.0), One("later", 2.0), One("other", 3.0)
    for place, lock in ((FIRST, first), (FIRST, later), (SECOND, other)):
        assert locks.park(place, lock)
    assert (len(locks), locks.next_deadline()) == (3, 1.0)
    assert locks.expire(0.9) == []
    assert locks.expire(1.0) == [first, later]
    assert (locks.remove_of_queue(FIRST), locks.remove_of_queue(SECOND), len(locks), locks.next_deadline()) == (
        [],
        [other],
        0,
        None,
    )


def test_no_more_requests_wait_than_the_limit_says() -> None:
    locks: ParkedLocks[One] = ParkedLocks()
    assert all(locks.park(FIRST, One("", 1.0)) for _ in range(MAX_PARKED_LOCKS))
    assert not locks.park(FIRST, One("", 1.0))
