"""When the members of a group are notified: windows, and the pause of joins."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from broker.groups.table import GroupTable
from model.limits import MAX_NOTIFY_WINDOW_S
from tests.unit.broker.groups.test_table import NOW_MS, beat, group, notified, settled
from tests.unit.broker.harness import consumer


def test_the_first_change_is_reported_at_once_and_those_of_the_next_100_ms_together() -> None:
    table = GroupTable()
    beat(table, "A", now=0.0)
    assert notified(table, 0.0) == [("g", NOW_MS + 1)]
    beat(table, "B", now=0.02)
    beat(table, "C", now=0.05)
    assert (notified(table, 0.05), table.next_deadline()) == ([], 0.1)
    assert notified(table, 0.1) == [("g", NOW_MS + 3)]


def notified_while(table: GroupTable, change: Callable[[float], object], steps: int) -> list[float]:
    """The moments of notifications, in windows of 1/8 s, while something changes every 1/64 s."""
    moments = []
    for now in (step / 64 for step in range(steps)):
        change(now)
        moments += [8 * now] * len(notified(table, now))
    return moments


def test_a_busy_group_is_notified_once_in_each_window() -> None:
    table = GroupTable(notify_window_s=0.125)  # exact in binary, as the steps are

    def come_and_go(now: float) -> None:
        beat(table, f"member at {now}", now=now)
        table.unregister("g", f"member at {now}", cause="", now=now)

    beat(table, "A", now=0.0)
    assert notified_while(table, come_and_go, 64) == [float(window) for window in range(8)]


def test_a_group_that_is_being_created_is_reported_when_joins_pause() -> None:
    table = GroupTable(notify_window_s=0.125)
    assert notified_while(table, lambda now: beat(table, f"member at {now}", now=now), 64) == [0.0]
    assert table.next_deadline() == 63 / 64 + 0.125 / 2
    assert len(notified(table, 63 / 64 + 0.125 / 2)) == 1


@pytest.mark.parametrize(("gap_s", "pause_s"), [(0.02, 0.05), (0.04, 0.08), (0.5, 1.0), (1.5, 2.0)])
def test_joins_have_paused_after_twice_their_longest_gap(gap_s: float, pause_s: float) -> None:
    table = settled("A")
    moments = [60.0, 60.01, *(60.01 + gap_s + number / 100 for number in range(8))]
    for number, now in enumerate(moments):
        beat(table, f"c{number}", connection=number + 1, now=now)
        notified(table, now if number != 1 else max(now, min(60.1, moments[2])))
    assert group(table).notify_at == pytest.approx(moments[-1] + pause_s)


def test_a_large_group_does_not_grow_by_a_few_members_that_join_in_a_row() -> None:
    table = settled(*(f"c{number}" for number in range(40)))
    moments = []
    for step in range(8):
        now = 60.0 + step / 2
        beat(table, f"d{step}", connection=50 + step, now=now)
        moments += [now] * len(notified(table, now))
    assert moments == [60.0 + step / 2 for step in range(8)]


@pytest.mark.parametrize(("group_began_at", "moments"), [(0.0, [63.4375, 66.5, 69.5625]), (60.0, [70.0])])
def test_a_group_that_grows_for_ever_is_reported_every_three_seconds_and_a_young_one_after_ten(
    group_began_at: float, moments: list[float]
) -> None:
    table = GroupTable()
    beat(table, "A", connection=0, now=group_began_at)
    notified(table, group_began_at)
    found = []
    for step in range(1, 11 * 16):
        now = 60.0 + (step - (group_began_at == 0.0)) / 16
        beat(table, f"c{step}", connection=step, now=now)
        found += [now] * len(notified(table, now))
    assert found[-len(moments) :] == moments
    assert all(later - sooner < 0.2 for sooner, later in itertools.pairwise(found[: -len(moments)]))


def test_a_leave_among_joins_is_reported_at_the_end_of_the_window() -> None:
    table = GroupTable()
    for number, now in enumerate((0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.09)):
        beat(table, f"c{number}", now=now)
        notified(table, now)
    assert table.next_deadline() == pytest.approx(0.09 + 2 * 0.03)
    table.unregister("g", "c1", cause="", now=0.095)
    assert table.next_deadline() == pytest.approx(0.1)
    beat(table, "last", now=0.096)
    assert table.next_deadline() == pytest.approx(0.1)


@pytest.mark.parametrize(("late_s", "window_s"), [(0.0, 0.4), (0.2, 0.8), (5.0, MAX_NOTIFY_WINDOW_S)])
def test_the_window_is_longer_in_a_large_group_and_when_the_broker_is_late(late_s: float, window_s: float) -> None:
    table = GroupTable()
    for number in range(400):
        beat(table, f"c{number:03}", connection=number, now=1.0)
    assert len(notified(table, 1.0 + late_s)) == 1
    table.unregister("g", "c000", cause="", now=1.01 + late_s)
    assert table.next_deadline() == pytest.approx(1.0 + late_s + window_s)


def test_one_busy_group_delays_no_other() -> None:
    table = settled("A", now=0.0)
    beat(table, "A", consumer("h"), now=0.11)
    assert notified(table, 0.11) == [("h", NOW_MS + 1)]


def test_a_group_that_was_quiet_for_a_window_is_reported_at_once_again() -> None:
    table = settled("A")
    beat(table, "B", now=0.3)
    assert notified(table, 0.3) == [("g", NOW_MS + 2)]


def test_the_next_notification_of_several_groups_is_known_when_the_earliest_is_put_off_or_not_due_any_more() -> None:
    table = GroupTable()
    for name, now in (("a", 0.0), ("b", 1 / 64), ("c", 2 / 64)):
        beat(table, "A", consumer(name), now=now)
        table.collect_notifications(now)
        beat(table, "B", consumer(name), now=now)
    assert table.next_deadline() == 0.1
    table.unregister("a", "A", cause="", now=0.05)
    table.unregister("a", "B", cause="", now=0.05)
    assert table.next_deadline() == 0.1 + 1 / 64, "nobody is left in a"
    assert notified(table, 0.1) == []
    for number in range(8):
        beat(table, f"more {number}", consumer("b"), now=0.11)
    assert table.next_deadline() == 0.1 + 2 / 64, "b grows, and waits for a pause"
    assert [[name for name, _ in notified(table, now)] for now in (0.2, 0.4)] == [["c"], ["b"]]
    assert table.collect_notifications(9.0) == []
