from __future__ import annotations

import math
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.bench.kit.interval import CONFIDENCE, MIN_ROUNDS, Interval, median_interval, ratio

FIGURES = st.lists(st.floats(0.01, 100), min_size=1, max_size=20)


@given(FIGURES)
def test_the_interval_has_the_median_and_lies_between_the_figures(figures: list[float]) -> None:
    found = median_interval(figures)
    assert min(figures) <= found.low <= median(figures) <= found.high <= max(figures)


@given(FIGURES)
def test_equal_figures_have_no_width_and_the_interval_scales_with_them(figures: list[float]) -> None:
    assert median_interval(figures[:1] * 15) == Interval(figures[0], figures[0])
    once, twice = median_interval(figures), median_interval([2 * figure for figure in figures])
    assert (twice.low, twice.high) == (2 * once.low, 2 * once.high)


@given(st.lists(st.floats(0.5, 2), min_size=MIN_ROUNDS, max_size=MIN_ROUNDS), st.floats(0, 5))
def test_a_wilder_round_never_narrows_the_interval(figures: list[float], further: float) -> None:
    ordered = sorted(figures)
    wilder = [max(ordered[0] - further, 0.0), *ordered[1:-1], ordered[-1] + further]
    narrow, wide = median_interval(ordered), median_interval(wilder)
    assert wide.low <= narrow.low
    assert wide.high >= narrow.high


@given(st.integers(1, 10).map(lambda half: 2 * half + 1), st.integers(0, 1_000))
@settings(max_examples=20)
def test_it_is_the_interval_of_the_medians_of_many_draws(count: int, seed: int) -> None:
    random = Random(seed)
    figures = [random.uniform(1, 2) for _ in range(count)]
    medians = sorted(median(random.choices(figures, k=count)) for _ in range(2_000))
    found = median_interval(figures)
    assert medians[50] <= found.low <= medians[150]
    assert medians[-151] <= found.high <= medians[-51]


def test_nine_of_ten_intervals_have_the_true_median() -> None:
    random, true, covered = Random(7), math.exp(0.3), 0
    for _ in range(300):
        figures = [random.lognormvariate(0.3, 0.2) for _ in range(MIN_ROUNDS)]
        found = median_interval(figures)
        covered += found.low <= true <= found.high
    assert CONFIDENCE - 0.05 < covered / 300 < CONFIDENCE + 0.07


def test_the_width_is_a_part_of_the_figure() -> None:
    assert Interval(0.9, 1.1).width(1.0) == pytest.approx(0.2)
    assert Interval(2.0, 2.0).width(0.0) == 0.0
    assert Interval(math.inf, math.inf).width(math.inf) == 0.0
    assert Interval(1.0, math.inf).width(2.0) == math.inf
    assert Interval(1.0, math.inf).width(math.inf) == math.inf


@pytest.mark.parametrize(
    ("value", "baseline", "expected"),
    [(3.0, 4.0, 0.75), (math.inf, math.inf, 1.0), (0.0, 0.0, 1.0), (4.0, 0.0, math.inf), (2.0, math.inf, 0.0)],
)
def test_the_ratio_of_two_figures_that_are_both_lost_prefers_neither(
    value: float, baseline: float, expected: float
) -> None:
    assert ratio(value, baseline) == expected


def test_without_rounds_there_is_no_interval() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        median_interval([])
