"""When a pass runs: triggers become passes, one at a time for each group."""

from __future__ import annotations

import pytest

from client.instance.schedule import RebalancePass, RebalanceSchedule
from client.trigger import Trigger

pytestmark = pytest.mark.walk


def schedule_of(*groups: str, enabled: frozenset[Trigger] = frozenset(Trigger)) -> RebalanceSchedule:
    """A schedule whose groups were added at 0 and have no pass behind them."""
    schedule = RebalanceSchedule(enabled=enabled)
    for group in groups:
        schedule.add(group, 0.0)
    return schedule


def test_nothing_is_scheduled_without_a_group() -> None:
    schedule = schedule_of()
    assert (schedule.next_deadline(), schedule.begin_due(1e9)) == (None, [])


def test_a_group_that_no_one_wakes_runs_at_its_timer() -> None:
    schedule = schedule_of("g")
    assert schedule.next_deadline() == 20.0
    assert schedule.begin_due(19.9) == []
    assert schedule.begin_due(20.0) == [RebalancePass("g", (Trigger.TIMER,), "")]


@pytest.mark.parametrize("trigger", list(Trigger))
def test_each_trigger_alone_makes_a_pass_at_once(trigger: Trigger) -> None:
    schedule = schedule_of("g", enabled=frozenset({trigger}))
    schedule.wake("g", trigger, "node/1", now=3.0)
    assert schedule.next_deadline() == 3.0
    assert schedule.begin_due(3.0) == [RebalancePass("g", (trigger,), "node/1")]


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_disabled_trigger_is_ignored(trigger: Trigger) -> None:
    schedule = schedule_of("g", enabled=frozenset(Trigger) - {trigger})
    schedule.wake("g", trigger, now=3.0)
    assert schedule.begin_due(3.0) == []


def test_without_the_timer_only_a_wake_up_makes_a_pass() -> None:
    schedule = schedule_of("g", enabled=frozenset({Trigger.START}))
    assert schedule.next_deadline() is None
    schedule.wake("g", Trigger.START, now=0.0)
    schedule.begin_due(0.0)
    schedule.finished("g", False, 0.1)
    assert (schedule.next_deadline(), schedule.begin_due(1e9)) == (None, [])


def test_wake_ups_before_a_pass_become_one_pass_with_the_first_cause() -> None:
    schedule = schedule_of("g")
    for trigger, cause in [(Trigger.ROUTE, ""), (Trigger.NOTIFY, "b/1"), (Trigger.ROUTE, "b/2"), (Trigger.LOCK, "b/3")]:
        schedule.wake("g", trigger, cause, now=1.0)
    assert schedule.begin_due(1.0) == [RebalancePass("g", (Trigger.ROUTE, Trigger.NOTIFY, Trigger.LOCK), "b/1")]
    assert schedule.next_deadline() is None


def test_wake_ups_during_a_pass_make_exactly_one_more() -> None:
    schedule = schedule_of("g")
    schedule.wake("g", Trigger.START, "c/1", now=1.0)
    schedule.begin_due(1.0)
    schedule.wake("g", Trigger.NOTIFY, "b/1", now=1.1)
    schedule.wake("g", Trigger.NOTIFY, "b/2", now=1.2)
    assert (schedule.next_deadline(), schedule.begin_due(1.2)) == (None, [])
    schedule.finished("g", True, 1.5)
    assert schedule.next_deadline() == 1.1
    assert schedule.begin_due(1.5) == [RebalancePass("g", (Trigger.NOTIFY,), "b/1")]
    schedule.finished("g", True, 2.0)
    assert schedule.next_deadline() == 22.0


@pytest.mark.parametrize(("balanced", "wait_s"), [(True, 20.0), (False, 1.0)])
def test_the_timer_is_short_while_a_group_is_not_balanced(balanced: bool, wait_s: float) -> None:
    schedule = schedule_of("g")
    schedule.begin_due(20.0)
    schedule.finished("g", balanced, 21.0)
    assert schedule.next_deadline() == 21.0 + wait_s


def test_a_group_may_have_intervals_of_its_own() -> None:
    schedule = RebalanceSchedule(interval_s=10.0, retry_s=2.0)
    schedule.add("slow", 0.0)
    schedule.add("fast", 0.0, interval_s=5.0)
    assert [one.group for one in schedule.begin_due(5.0)] == ["fast"]
    schedule.finished("fast", False, 5.0)
    assert schedule.next_deadline() == 7.0
    schedule.remove("fast")
    assert schedule.next_deadline() == 10.0


def test_a_timer_that_ran_out_together_with_a_wake_up_is_named_last() -> None:
    schedule = schedule_of("g")
    schedule.wake("g", Trigger.NOTIFY, "b/1", now=20.5)
    assert schedule.begin_due(20.5) == [RebalancePass("g", (Trigger.NOTIFY, Trigger.TIMER), "b/1")]


def test_groups_that_are_woken_together_run_in_the_order_they_were_added() -> None:
    schedule = schedule_of("g2", "g1")
    for group in ("g1", "g2"):
        schedule.wake(group, Trigger.RECONNECT, "c/9", now=4.0)
    assert schedule.begin_due(4.0) == [
        RebalancePass("g2", (Trigger.RECONNECT,), "c/9"),
        RebalancePass("g1", (Trigger.RECONNECT,), "c/9"),
    ]


def test_a_running_group_does_not_hold_another_one_up() -> None:
    schedule = schedule_of("g1", "g2")
    schedule.wake("g1", Trigger.START, now=0.0)
    schedule.begin_due(0.0)
    schedule.wake("g2", Trigger.START, now=0.1)
    assert [one.group for one in schedule.begin_due(0.1)] == ["g2"]


def test_a_removed_group_is_neither_woken_nor_missed() -> None:
    schedule = schedule_of("g")
    schedule.begin_due(20.0)
    schedule.remove("g")
    schedule.remove("g")
    schedule.wake("g", Trigger.NOTIFY, now=20.1)
    schedule.finished("g", True, 20.2)
    assert (schedule.next_deadline(), schedule.begin_due(1e9)) == (None, [])


def test_using_the_schedule_out_of_order_is_a_bug() -> None:
    schedule = schedule_of("g")
    with pytest.raises(AssertionError, match="never began"):
        schedule.finished("g", True, 1.0)
    with pytest.raises(AssertionError, match="scheduled already"):
        schedule.add("g", 1.0)
