from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runs.interval import MeanInterval, difference, mean_interval, t_quantile


@pytest.mark.parametrize(
    ("freedom", "of_a_table"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (10_000, 1.960)]
)
def test_the_quantiles_are_those_of_printed_tables(freedom: float, of_a_table: float) -> None:
    assert t_quantile(freedom) == pytest.approx(of_a_table, abs=6e-4)


def test_a_mean_has_its_interval_and_one_run_has_none() -> None:
    found = mean_interval([4, 6, 8])
    assert (found.n, found.mean, found.low, found.high) == pytest.approx((3, 6, 1.032, 10.968), abs=1e-3)
    assert mean_interval([5, 5, 5]) == MeanInterval(n=3, mean=5, low=5, high=5)
    assert mean_interval([5]) == MeanInterval(n=1, mean=5, low=None, high=None)
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval([])


def test_of_many_sets_of_runs_about_one_in_twenty_has_the_mean_outside_of_its_interval() -> None:
    rng = random.Random(7)
    outside = 0
    for _ in range(2_000):
        found = mean_interval([rng.gauss(10, 3) for _ in range(5)])
        assert found.low is not None
        assert found.high is not None
        outside += not found.low <= 10 <= found.high
    assert outside == pytest.approx(100, abs=30)


def test_a_difference_has_the_interval_of_welch() -> None:
    # Worked out by hand: 5 and 4 degrees of freedom with other variances, 6.93 together.
    found = difference([20, 22, 19, 20, 22, 18], [28, 27, 33, 31, 26])
    freedom = (2.5667 / 6 + 8.5 / 5) ** 2 / ((2.5667 / 6) ** 2 / 5 + (8.5 / 5) ** 2 / 4)
    half = t_quantile(freedom) * (2.5667 / 6 + 8.5 / 5) ** 0.5
    assert found.n == 5
    assert found.mean == pytest.approx(121 / 6 - 29)
    assert (found.low, found.high) == pytest.approx((121 / 6 - 29 - half, 121 / 6 - 29 + half), abs=1e-3)
    assert difference([3, 3], [1, 1]) == MeanInterval(n=2, mean=2, low=2, high=2)
    assert difference([3], [1, 1, 4]) == MeanInterval(n=1, mean=1, low=None, high=None)


VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8)


@given(VALUES, VALUES, st.floats(-1e6, 1e6))
def test_an_interval_moves_with_its_values_and_a_difference_turns_its_sign(
    now: list[float], before: list[float], by: float
) -> None:
    moved = mean_interval([value + by for value in now])
    assert (moved.low, moved.high) == pytest.approx(
        tuple((bound or 0) + by for bound in (mean_interval(now).low, mean_interval(now).high)), abs=1e-2
    )
    forth, back = difference(now, before), difference(before, now)
    assert (forth.mean, forth.low, forth.high) == pytest.approx((-back.mean, -(back.high or 0), -(back.low or 0)))
    assert forth.mean == pytest.approx(fmean(now) - fmean(before), abs=1e-6)
