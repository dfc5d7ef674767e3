from __future__ import annotations

import pytest

from testbed.bench.kit.report import COLUMNS, GOALS, Goal, Result, as_rows

AT_LEAST_HALF = Goal(0.5, of_ratio=True, at_least=True)
AT_MOST_TEN = Goal(10.0, of_ratio=False, at_least=False)
AT_LEAST_MANY = Goal(200_000.0, of_ratio=False, at_least=True)


def result(name: str = "x", value: float = 1.0, ratio: float | None = None) -> Result:
    return Result(name=name, value=value, unit="messages/s", baseline_value=None if ratio is None else 2.0, ratio=ratio)


@pytest.mark.parametrize(("ratio", "met"), [(0.49, False), (0.5, True), (0.51, True)])
def test_a_goal_for_a_ratio_looks_at_the_ratio(ratio: float, met: bool) -> None:
    assert AT_LEAST_HALF.is_met(result(value=0.0, ratio=ratio)) is met


@pytest.mark.parametrize(("value", "met"), [(9.9, True), (10.0, True), (10.1, False)])
def test_a_goal_for_a_value_is_a_limit_from_above_when_less_is_better(value: float, met: bool) -> None:
    assert AT_MOST_TEN.is_met(result(value=value)) is met


def test_a_goal_says_what_it_asks_for() -> None:
    assert (str(AT_LEAST_HALF), str(AT_MOST_TEN), str(AT_LEAST_MANY)) == ("≥ 0.5 ×", "≤ 10", "≥ 200,000")


def test_a_row_has_a_cell_for_each_column_and_says_whether_the_goal_is_met() -> None:
    rows = as_rows([result("send-64", 123_456.7, 0.61), result("send-64", 7.0, 0.59), result("consume", 12.3456)])
    assert [len(row) for row in rows] == [len(COLUMNS)] * 3
    assert rows[0] == ("send-64", "123,457", "messages/s", "2", "0.61", "≥ 0.6 ×", "met", "")
    assert rows[1][-2] == "missed"
    assert rows[2] == ("consume", "12.35", "messages/s", None, None, None, "", "")


def test_the_figures_that_were_promised_have_goals() -> None:
    assert GOALS.keys() >= {"send-64", "send-1", "pull-32", "join-100", "memory-idle-consumer"}
    assert GOALS.keys() >= {"store-async", "store-sync", "catch-up", "recovery-stored-16x"}


def test_a_note_stands_at_the_end_of_its_row() -> None:
    (row,) = as_rows([Result(name="x", value=1.0, unit="s", note="a slow day")])
    assert row[-1] == "a slow day"
