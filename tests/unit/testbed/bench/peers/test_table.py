from __future__ import annotations

import math

import pytest

from testbed.bench.kit.interval import Interval
from testbed.bench.kit.report import MET, MISSED, UNSURE
from testbed.bench.peers.table import as_row, columns, compare


def test_the_ratio_is_the_median_of_the_rounds_against_the_best_peer() -> None:
    rounds = {"rlab": [100.0, 120.0, 110.0], "redis-py": [90.0, 100.0, 200.0], "aiokafka": [40.0, 50.0, 45.0]}
    comparison = compare("send-1", "messages/s", rounds, more_is_better=True)
    assert comparison.best == "redis-py"
    assert comparison.ratio == pytest.approx(100 / 90)
    assert comparison.verdict == UNSURE  # of three rounds
    assert comparison.of_echo is None


def test_the_best_latency_is_the_lowest_and_its_goal_is_an_upper_bound() -> None:
    rounds = {"rlab": [3.0] * 15, "redis-py": [40.0, 50.0, 60.0] * 5, "aiokafka": [4.0] * 15}
    comparison = compare("latency-20000-p99", "ms", rounds, more_is_better=False)
    assert (comparison.best, comparison.ratio, comparison.verdict) == ("aiokafka", 0.75, MISSED)


def test_a_rate_meets_its_goal_with_the_lower_end_of_the_interval_and_a_tail_may_be_twice_as_unsure() -> None:
    ours = [2.1, 2.2, 2.3] * 5
    assert compare("send-64", "", {"rlab": ours, "peer": [1.0] * 15}, more_is_better=True).verdict == MET
    assert compare("send-64", "", {"rlab": ours, "peer": [1.1] * 15}, more_is_better=True).verdict == MISSED
    wide = [0.45, 0.5, 0.55] * 5
    tail = compare("latency-20000-p99", "", {"rlab": wide, "peer": [1.0] * 15}, more_is_better=False)
    assert (tail.interval, tail.verdict) == (Interval(0.45, 0.55), MET)
    rate = compare("send-1", "", {"rlab": wide, "peer": [0.4] * 15}, more_is_better=True)
    assert rate.verdict == UNSURE


def test_who_loses_messages_misses_the_goal_even_if_the_peer_loses_some_as_well() -> None:
    rounds = {"rlab": [math.inf] * 15, "nats-py": [math.inf] * 15}
    comparison = compare("latency-60000-p99", "ms", rounds, more_is_better=False)
    assert (comparison.ratio, comparison.verdict) == (1.0, MISSED)


def test_neither_the_echo_nor_a_client_in_c_is_the_best_peer() -> None:
    rounds = {"rlab": [50.0], "echo": [100.0], "confluent-kafka": [900.0], "aiokafka": [25.0]}
    comparison = compare("consume", "messages/s", rounds, more_is_better=True)
    assert (comparison.best, comparison.ratio, comparison.of_echo) == ("aiokafka", 2.0, 0.5)


def test_without_a_peer_there_is_no_ratio_and_no_verdict() -> None:
    comparison = compare("send-64", "messages/s", {"rlab": [50.0], "echo": [100.0]}, more_is_better=True)
    row = as_row(comparison, ["rlab", "echo"])
    assert row == ("send-64", "messages/s", "50", "100", "0.50", None, None, "≥ 2 ×", "", None)
    assert len(row) == len(columns(["rlab", "echo"]))


def test_a_system_that_was_not_measured_has_an_empty_cell_and_one_that_failed_says_so() -> None:
    comparison = compare("latency-60000-p99", "ms", {"rlab": [24.0], "nats-py": [math.inf]}, more_is_better=False)
    assert as_row(comparison, ["rlab", "redis-py", "nats-py"])[2:5] == ("24", None, "lost")
