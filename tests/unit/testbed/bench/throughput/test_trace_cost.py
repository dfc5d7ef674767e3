from __future__ import annotations

from testbed.bench.kit.interval import Interval
from testbed.bench.kit.rounds import Turn
from testbed.bench.throughput.trace_cost import compute_cost, interval


def test_the_interval_of_a_median_leaves_out_as_many_at_both_ends_as_coins_allow() -> None:
    assert interval([float(n) for n in range(1, 21)]) == Interval(6.0, 15.0)
    assert interval([float(n) for n in range(1, 31)]) == Interval(10.0, 21.0)
    assert interval([3.0, 1.0, 2.0]) == Interval(1.0, 3.0)


def test_the_cost_is_the_part_of_the_rate_that_is_missing_with_the_trace() -> None:
    result = compute_cost("x", [Turn(96.0 + n % 3, 100.0) for n in range(21)])
    assert (result.value, result.unit) == (3.0, "% of the rate")
    assert result.note.startswith("2.0 to 4.0 % with 95% confidence, 21 turns; 97 against 100")
