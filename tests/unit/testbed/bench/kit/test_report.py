from __future__ import annotations

import pytest

from testbed.bench.kit.host_share import CpuShares
from testbed.bench.kit.interval import Interval
from testbed.bench.kit.report import COLUMNS, GOALS, MET, MISSED, UNSURE, Goal, Result, as_rows, judge_ratio

AT_LEAST_HALF = Goal(0.5, of_ratio=True, at_least=True)
AT_MOST_TEN = Goal(10.0, of_ratio=False, at_least=False)
AT_LEAST_MANY = Goal(200_000.0, of_ratio=False, at_least=True)


def result(name: str = "x", value: float = 1.0, ratio: float | None = None) -> Result:
    return Result(name=name, value=value, unit="messages/s", baseline_value=None if ratio is None else 2.0, ratio=ratio)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.49, MISSED), (0.5, MET), (0.51, MET)])
def test_a_goal_for_a_ratio_looks_at_the_ratio(ratio: float, verdict: str) -> None:
    assert AT_LEAST_HALF.verdict(result(value=0.0, ratio=ratio)) == verdict


@pytest.mark.parametrize(("value", "verdict"), [(9.9, MET), (10.0, MET), (10.1, MISSED)])
def test_a_goal_for_a_value_is_a_limit_from_above_when_less_is_better(value: float, verdict: str) -> None:
    assert AT_MOST_TEN.verdict(result(value=value)) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.5, 0.56, MET), (0.49, 0.56, MISSED), (0.45, 0.48, MISSED), (0.51, 0.61, UNSURE), (0.3, 0.8, UNSURE)],
)
def test_the_lower_end_of_an_interval_has_to_reach_a_goal_from_below_and_a_wide_interval_decides_nothing(
    low: float, high: float, verdict: str
) -> None:
    measured = Result(name="x", value=1.0, unit="s", ratio=0.55, interval=Interval(low, high))
    assert AT_LEAST_HALF.verdict(measured) == verdict


def test_the_upper_end_of_an_interval_has_to_stay_below_a_goal_from_above() -> None:
    at_most = Goal(0.6, of_ratio=True, at_least=False)
    assert judge_ratio(at_most, 0.55, Interval(0.5, 0.6), 0.3) == MET
    assert judge_ratio(at_most, 0.55, Interval(0.5, 0.61), 0.3) == MISSED
    assert judge_ratio(at_most, 0.55, Interval(0.5, 0.61), 0.15) == UNSURE


def test_a_goal_says_what_it_asks_for() -> None:
    assert (str(AT_LEAST_HALF), str(AT_MOST_TEN), str(AT_LEAST_MANY)) == ("≥ 0.5 ×", "≤ 10", "≥ 200,000")


def test_a_row_has_a_cell_for_each_column_and_says_whether_the_goal_is_met() -> None:
    rows = as_rows([result("send-64", 123_456.7, 0.61), result("send-64", 7.0, 0.59), result("consume", 12.3456)])
    assert [len(row) for row in rows] == [len(COLUMNS)] * 3
    assert rows[0] == ("send-64", "123,457", "messages/s", "2", "0.61", None, "≥ 0.6 ×", "met", None, "")
    assert rows[1][-3] == "missed"
    assert rows[2] == ("consume", "12.35", "messages/s", None, None, None, None, "", None, "")


def test_the_figures_that_were_promised_have_goals() -> None:
    assert GOALS.keys() >= {"send-64", "send-1", "pull-32", "join-100", "memory-idle-consumer"}
    assert GOALS.keys() >= {"store-async", "store-sync", "catch-up", "recovery-stored-16x"}


def test_a_note_stands_at_the_end_of_its_row() -> None:
    (row,) = as_rows([Result(name="x", value=1.0, unit="s", note="a slow day")])
    assert row[-1] == "a slow day"


def test_a_row_shows_the_interval_and_the_cpu_time_that_the_measurement_did_not_get() -> None:
    measured = Result(
        name="send-64",
        value=1.0,
        unit="messages/s",
        baseline_value=2.0,
        ratio=0.7,
        interval=Interval(0.655, 0.744),
        host=CpuShares(0.034, 0.21),
    )
    (row,) = as_rows([measured])
    assert row[4:] == ("0.70", "0.66 to 0.74", "≥ 0.6 ×", "met", "3% + 21%", "")
