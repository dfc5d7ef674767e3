from __future__ import annotations

import pytest

from broker.retry import delay_table
from broker.retry.delay_table import NOTHING_DONE, DelayTable, LowWaterMarks
from model.errors import SystemBusy


def test_messages_fall_due_in_the_order_of_their_times_and_not_before() -> None:
    table = DelayTable()
    for offset, due_ms in enumerate((50, 10, 30)):
        table.add(offset, due_ms, "t")
    assert table.next_due_ms() == 10
    assert table.remove_due(9, 10) == []
    assert table.remove_due(30, 10) == [(10, 1), (30, 2)]
    assert table.next_due_ms() == 50


def test_no_more_than_the_limit_is_taken_at_once() -> None:
    table = DelayTable()
    for offset in range(5):
        table.add(offset, 1, "t")
    assert [offset for _, offset in table.remove_due(1, 2)] == [0, 1]
    assert [offset for _, offset in table.remove_due(1, 9)] == [2, 3, 4]


def test_a_restart_need_not_look_below_the_first_message_that_still_waits() -> None:
    table = DelayTable()
    for offset, due_ms in enumerate((50, 10, 30)):
        table.add(offset, due_ms, "t")
    table.done(1, mark=0)
    assert table.low_water() == LowWaterMarks(0, 0), "message 0 waits, and mark 0 says that 1 does not"
    table.done(0, mark=1)
    assert table.low_water() == LowWaterMarks(2, 2)
    table.done(2, mark=2)
    assert table.low_water() == LowWaterMarks(3, 3)
    assert len(table) == 0


def test_a_message_that_could_not_be_delivered_is_redelivered() -> None:
    table = DelayTable()
    table.add(0, 10, "t")
    assert table.remove_due(10, 1) == [(10, 0)]
    assert len(table) == 1
    table.requeue(0, 20)
    assert table.remove_due(19, 1) == []
    assert table.remove_due(20, 1) == [(20, 0)]


def test_what_a_mark_found_at_the_restart_says_is_done_is_not_delivered_again() -> None:
    table = DelayTable(LowWaterMarks(7, 3))
    table.add(7, 10, "t")
    table.add(8, 20, "t")
    table.done(7, mark=3)
    table.done(2, mark=4)
    assert table.remove_due(100, 10) == [(20, 8)]
    assert table.low_water() == LowWaterMarks(8, 5)


def test_a_message_waits_until_its_delivery_is_marked() -> None:
    table = DelayTable()
    table.add(0, 10, "t")
    assert (0 in table, 1 in table) == (True, False)
    table.remove_due(10, 1)
    assert 0 in table
    table.done(0, mark=0)
    assert 0 not in table


def test_there_is_room_up_to_the_limit_and_not_beyond() -> None:
    table = DelayTable(NOTHING_DONE, 2)
    table.add(0, 1, "t")
    table.check_room()
    table.add(1, 1, "t")
    with pytest.raises(SystemBusy, match="2 delayed messages"):
        table.check_room()
    table.done(0, mark=0)
    table.check_room()


def test_times_move_with_the_clock_and_a_message_that_is_lost_holds_nothing_up() -> None:
    table = DelayTable()
    for offset, due_ms in enumerate((50, 10, 30)):
        table.add(offset, due_ms, "t")
    table.shift(-40)
    assert table.remove_due(0, 10) == [(-30, 1), (-10, 2)]
    assert table.next_due_ms() == 10
    table.forget(0)
    assert table.low_water() == LowWaterMarks(1, 0)


def test_the_messages_of_a_deleted_topic_are_due_at_once_and_those_of_others_are_not() -> None:
    table = DelayTable()
    for offset, topic in enumerate(("a", "b", "a")):
        table.add(offset, 1_000, topic)
    assert table.delete_topic("a") == 2
    assert [table.topic_of(offset) for offset in range(3)] == [None, "b", None]
    assert [offset for _, offset in table.remove_due(0, 10)] == [0, 2]
    for mark, offset in enumerate((0, 2)):
        table.done(offset, mark)
    assert list(table.waiting()) == [1]
    assert table.delete_topic("a") == 0


def test_marks_behind_a_message_that_waits_for_long_are_joined_and_none_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delay_table, "MAX_DELAY_MARKS", 100)
    table = DelayTable()
    table.add(0, 10**9, "t")
    for offset in range(1, 10_000):
        table.add(offset, 1, "t")
        table.done(offset, mark=offset - 1)
    assert len(table._marks) <= 100  # what is bounded is no result
    assert len(table._order) <= 1_100
    assert table.low_water() == LowWaterMarks(0, 0)
    table.done(0, mark=9_999)
    assert table.low_water() == LowWaterMarks(10_000, 10_000)


def test_the_times_of_messages_are_those_that_the_clock_has_made_them() -> None:
    table = DelayTable()
    table.add(0, 50, "t")
    table.add(1, 60, "t")
    table.shift(-40)
    assert table.due_times([0, 1, 7]) == {0: 10, 1: 20}
    table.remove_due(10, 1)
    assert table.due_times([0]) == {}, "it is being delivered"
