"""width: what it counts, and the exponent."""

from __future__ import annotations

import pytest

from testbed.bench.rebalance.width import QUEUES_PER_MEMBER, fitted_exponent, measure_group

MOVE_BYTES = 250
"""A move on the wire: the release with its commit, the lease, the first pull, and their answers."""


def test_a_change_costs_each_member_of_a_larger_group_no_more_bytes() -> None:
    of_size = {members: {cost.change: cost for cost in measure_group(members)} for members in (20, 60)}
    for change in ("cold", "join", "leave", "crash"):
        # AVG moves more of a larger group: a join in the middle moves 30 of 80 queues, and 110 of 240.
        each = {
            members: (costs[change].bytes_sent - costs[change].moves * MOVE_BYTES) / members
            for members, costs in of_size.items()
        }
        assert 0 < each[60] < 1.05 * each[20], change
    for members, costs in of_size.items():
        assert costs["cold"].moves == members * QUEUES_PER_MEMBER, "a cold start acquires each queue once"
        assert 0 < costs["crash"].moves < costs["join"].moves <= members * QUEUES_PER_MEMBER


def test_bytes_and_moves_are_the_same_each_time() -> None:
    once, again = ([(cost.change, cost.bytes_sent, cost.moves) for cost in measure_group(10)] for _ in range(2))
    assert once == again


def test_the_exponent_is_the_slope_of_the_logarithms() -> None:
    assert fitted_exponent([10, 100, 1000], [3.0, 30.0, 300.0]) == pytest.approx(1.0)
    assert fitted_exponent([10, 100], [1.0, 100.0]) == pytest.approx(2.0)
