"""Held pulls: each is taken exactly once, by what comes first."""

from __future__ import annotations

import pytest

from broker.messages.long_polls import HeldPull, LongPollTable
from model.errors import SystemBusy
from remoting.command import REQUEST, Command

REQUEST_ = Command(REQUEST, 11, 1, {}, None)


def hold(
    table: LongPollTable[str], connection: str = "a", queue: tuple[str, int] = ("t", 0), deadline: float = 15.0
) -> HeldPull[str]:
    pull = HeldPull(connection, REQUEST_, queue, deadline)
    table.hold(pull)
    return pull


def test_the_pulls_of_a_queue_are_taken_oldest_first() -> None:
    table: LongPollTable[str] = LongPollTable()
    first, _, third = hold(table, "a"), hold(table, queue=("t", 1)), hold(table, "b")
    assert table.take_queue("t", 0) == [first, third]
    assert (table.take_queue("t", 0), len(table)) == ([], 1)


def test_a_pull_is_taken_at_its_time_and_not_before() -> None:
    table: LongPollTable[str] = LongPollTable()
    late, early = hold(table, deadline=9.0), hold(table, deadline=3.0)
    assert (table.next_deadline(), table.expire(2.9)) == (3.0, [])
    assert table.expire(3.0) == [early]
    assert table.next_deadline() == 9.0
    assert table.expire(100.0) == [late]
    assert table.next_deadline() is None


def test_the_pulls_of_a_connection_that_is_gone_are_taken_from_every_queue() -> None:
    table: LongPollTable[str] = LongPollTable()
    mine, other = [hold(table, "a", ("t", 0)), hold(table, "a", ("u", 5))], hold(table, "b", ("t", 0))
    assert table.take_connection("a") == mine
    assert table.take_queue("t", 0) == [other]
    assert (table.take_connection("a"), table.take_queue("u", 5), len(table)) == ([], [], 0)


def test_a_pull_that_was_answered_does_not_wake_anybody_at_its_time() -> None:
    table: LongPollTable[str] = LongPollTable()
    hold(table, deadline=3.0)
    table.take_queue("t", 0)
    assert (table.next_deadline(), table.expire(3.0)) == (None, [])


def test_equal_deadlines_are_answered_in_the_order_of_asking() -> None:
    table: LongPollTable[str] = LongPollTable()
    pulls = [hold(table, str(number)) for number in range(5)]
    assert table.expire(15.0) == pulls


@pytest.mark.parametrize(
    ("max_held", "max_per_queue", "text"), [(2, 9, "2 on this broker"), (9, 2, "2 pulls are held")]
)
def test_the_limit_is_taken_and_one_more_is_refused(max_held: int, max_per_queue: int, text: str) -> None:
    table: LongPollTable[str] = LongPollTable(max_held=max_held, max_per_queue=max_per_queue)
    pulls = [hold(table), hold(table)]
    with pytest.raises(SystemBusy, match=text):
        hold(table)
    assert table.take_queue("t", 0) == pulls
    hold(table)
    assert len(table) == 1


def test_pulls_that_are_answered_long_before_their_time_do_not_pile_up() -> None:
    table: LongPollTable[str] = LongPollTable()
    kept = hold(table, queue=("u", 0), deadline=1e6)
    for _ in range(10_000):
        hold(table, deadline=15.0)
        table.take_queue("t", 0)
    assert len(table._deadlines) < 100
    assert table.next_deadline() == 1e6
    assert table.expire(1e6) == [kept]
