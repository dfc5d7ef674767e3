"""Who waits for what, and who is first."""

from __future__ import annotations

import pytest

from broker.pop.request import PopRequest
from broker.pop.waiters import HeldPop, PopWaiters
from model.errors import PollingFull
from remoting.command import REQUEST, Command
from remoting.wire.pop import ANY_QUEUE


def pop_of(group: str = "g", topic: str = "t", queue_id: int = ANY_QUEUE, retry: bool = False) -> PopRequest:
    retry_topic = f"%RETRY%{group}" if retry else None
    return PopRequest(group, topic, queue_id, "c", 32, 1.0, None, False, 16, None, 0, retry_topic)


def held(waiters: PopWaiters[str], pop: PopRequest, deadline: float = 10.0, connection: str = "a") -> HeldPop[str]:
    one = HeldPop(connection, Command(REQUEST, 1, 1, {}, None), pop, deadline)
    waiters.hold(one)
    return one


def test_whoever_has_waited_longest_for_a_queue_is_first() -> None:
    waiters: PopWaiters[str] = PopWaiters()
    any_queue, of_one = held(waiters, pop_of()), held(waiters, pop_of(queue_id=1))
    held(waiters, pop_of("h"))
    assert waiters.groups_of("t") == ["g", "h"]
    assert waiters.first("t", "g", 1) is any_queue
    waiters.take(any_queue)
    assert waiters.first("t", "g", 1) is of_one
    assert waiters.first("t", "g", 0) is None


def test_one_that_wants_the_retry_topic_too_waits_for_both_and_is_taken_from_both() -> None:
    waiters: PopWaiters[str] = PopWaiters()
    one = held(waiters, pop_of(retry=True))
    assert waiters.first("%RETRY%g", "g", 0) is one
    assert waiters.waits("t", "g")
    waiters.take(one)
    assert (len(waiters), waiters.groups_of("t"), waiters.groups_of("%RETRY%g")) == (0, [], [])
    assert not waiters.waits("t", "g")


def test_a_pop_is_taken_when_its_time_is_over_or_its_connection_or_topic_is_gone() -> None:
    waiters: PopWaiters[str] = PopWaiters()
    soon = held(waiters, pop_of(), 5.0)
    held(waiters, pop_of(), 6.0, connection="b")
    of_topic = held(waiters, pop_of(topic="u"), 7.0)
    assert waiters.next_deadline() == 5.0
    assert waiters.expire(5.0) == [soon]
    waiters.take_connection("b")
    waiters.take_connection("nobody")
    assert waiters.take_topic("u") == [of_topic]
    assert (len(waiters), waiters.next_deadline()) == (0, None)


def test_no_more_are_held_than_the_limits_say() -> None:
    waiters: PopWaiters[str] = PopWaiters(max_held=3, max_per_place=2)
    for _ in range(2):
        waiters.check_room(pop_of())
        held(waiters, pop_of())
    with pytest.raises(PollingFull, match="2 pops of group 'g'"):
        waiters.check_room(pop_of())
    waiters.check_room(pop_of("h"))
    held(waiters, pop_of("h"))
    with pytest.raises(PollingFull):
        waiters.check_room(pop_of("i"))


def test_answered_pops_leave_no_memory_behind() -> None:
    waiters: PopWaiters[str] = PopWaiters()
    for _ in range(1_000):
        waiters.take(held(waiters, pop_of()))
    assert len(waiters._deadlines) < 100
