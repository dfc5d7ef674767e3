from __future__ import annotations

import pytest

from broker.retry.delay_table import NOTHING_DONE, DelayTable, LowWater
from model.errors import SystemBusy


def test_messages_fall_due_in_the_order_of_their_times_and_not_before() -> None:
    table = DelayTable()
    for offset, due_ms in enumerate((50, 10, 30)):
        table.add(offset, due_ms)
    assert table.next_due_ms() == 10
    assert table.take_due(9, 10) == []
    assert table.take_due(30, 10) == [(10, 1), (30, 2)]
    assert table.next_due_ms() == 50


def test_no_more_than_the_limit_is_taken_at_once() -> None:
    table = DelayTable()
    for offset in range(5):
        table.add(offset, 1)
    assert [offset for _, offset in table.take_due(1, 2)] == [0, 1]
    assert [offset for _, offset in table.take_due(1, 9)] == [2, 3, 4]


def test_a_restart_need_not_look_below_the_first_message_that_still_waits() -> None:
    table = DelayTable()
    for offset, due_ms in enumerate((50, 10, 30)):
        table.add(offset, due_ms)
    table.done(1, mark=0)
    assert table.low_water() == LowWater(0, 0), "message 0 waits, and mark 0 says that 1 does not"
    table.done(0, mark=1)
    assert table.low_water() == LowWater(2, 2)
    table.done(2, mark=2)
    assert table.low_water() == LowWater(3, 3)
    assert len(table) == 0


def test_a_message_that_could_not_be_delivered_comes_again() -> None:
    table = DelayTable()
    table.add(0, 10)
    assert table.take_due(10, 1) == [(10, 0)]
    assert len(table) == 1
    table.put_back(0, 20)
    assert table.take_due(19, 1) == []
    assert table.take_due(20, 1) == [(20, 0)]


def test_what_a_mark_found_at_the_restart_says_is_done_is_not_delivered_again() -> None:
    table = DelayTable(LowWater(7, 3))
    table.add(7, 10)
    table.add(8, 20)
    table.done(7, mark=3)
    table.done(2, mark=4)
    assert table.take_due(100, 10) == [(20, 8)]
    assert table.low_water() == LowWater(8, 5)


def test_a_message_waits_until_its_delivery_is_marked() -> None:
    table = DelayTable()
    table.add(0, 10)
    assert (0 in table, 1 in table) == (True, False)
    table.take_due(10, 1)
    assert 0 in table
    table.done(0, mark=0)
    assert 0 not in table


def test_there_is_room_up_to_the_limit_and_not_beyond() -> None:
    table = DelayTable(NOTHING_DONE, 2)
    table.add(0, 1)
    table.check_room()
    table.add(1, 1)
    with pytest.raises(SystemBusy, match="2 delayed messages"):
        table.check_room()
    table.done(0, mark=0)
    table.check_room()


def test_times_move_with_the_clock_and_a_message_that_is_lost_holds_nothing_up() -> None:
    table = DelayTable()
    for offset, due_ms in enumerate((50, 10, 30)):
        table.add(offset, due_ms)
    table.shift(-40)
    assert table.take_due(0, 10) == [(-30, 1), (-10, 2)]
    assert table.next_due_ms() == 10
    table.forget(0)
    assert table.low_water() == LowWater(1, 0)
