"""When a replica may stand for election, and which of several goes first."""

from __future__ import annotations

from replica.lease.promise import RANK_S, Promise, rank_delay_s


def test_a_replica_that_starts_waits_because_it_may_have_promised_something_before() -> None:
    assert Promise(5.0).ends_at(2.0) == 7.2


def test_each_confirmation_gives_the_promise_again_and_it_never_goes_back() -> None:
    promise = Promise(5.0)
    promise.give(8.0)
    promise.give(6.0)
    assert promise.ends_at(1.0) == 9.1


def test_a_master_that_serves_no_more_has_no_promise_and_the_next_one_has_one() -> None:
    promise = Promise(5.0)
    promise.release(5.5)
    promise.release(6.0)
    assert promise.ends_at(2.0) == 5.5
    promise.give(9.0)
    assert promise.ends_at(2.0) == 11.2


def test_a_new_master_that_has_to_wait_gets_that_time_until_its_first_frame() -> None:
    promise = Promise(5.0)
    promise.give(6.0, begins_in_s=3.0)
    assert (promise.ends_at(1.0), promise.stands_at(1.0)) == (7.1, 10.1)
    promise.give(8.0)
    assert promise.stands_at(1.0) == 9.1
    promise.give(9.0, begins_in_s=3.0)
    promise.release(9.5)
    assert promise.stands_at(1.0) == 9.5


def test_replicas_that_have_everything_stand_first_and_then_the_lowest_id() -> None:
    order = [(lacks, each) for lacks in (False, True) for each in (2, 4, 7)]
    delays = [rank_delay_s(each, (2, 4, 7), lacks=lacks) for lacks, each in order]
    assert delays == [RANK_S * place for place in range(6)]


def test_a_replica_that_is_not_a_candidate_waits_for_those_that_are() -> None:
    assert rank_delay_s(9, (2, 4), lacks=False) == 2 * RANK_S
