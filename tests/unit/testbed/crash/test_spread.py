from __future__ import annotations

from testbed.crash.spread import Spread, spread


def test_durations_are_summed_up_by_their_spread_and_unknown_ones_are_left_out() -> None:
    assert spread([3.0, None, 1.0, 2.5]) == Spread(n=3, min_s=1.0, median_s=2.5, p99_s=3.0, max_s=3.0)
    assert spread([None]) == Spread(n=0, min_s=0.0, median_s=0.0, p99_s=0.0, max_s=0.0)


def test_99_of_100_durations_are_not_longer_than_the_p99() -> None:
    assert spread(float(n) for n in range(100, 0, -1)).p99_s == 99.0
