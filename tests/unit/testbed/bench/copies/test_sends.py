"""Sends to real sets are in `test_every.py`."""

from __future__ import annotations

from testbed.bench.copies.sends import median_result
from testbed.bench.kit.rounds import MeasuredTurns, Turn


def test_the_turn_with_the_median_ratio_is_reported_in_milliseconds() -> None:
    turns = MeasuredTurns([Turn(0.4, 0.1), Turn(0.3, 0.15), Turn(0.9, 0.1)])
    result = median_result("copies-send-1", turns, "a note")
    assert (result.value, result.baseline_value, result.ratio, result.unit) == (0.4, 0.1, 4.0, "ms")
    assert (result.interval, result.note) == (None, "a note")
