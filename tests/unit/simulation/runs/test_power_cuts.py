"""The run itself: what it counts, and that a seed decides it."""

from __future__ import annotations

import pytest

from simulation.runs.power_cuts import PowerCutResult, run_power_cuts

pytestmark = pytest.mark.simulation


def test_equal_seeds_give_equal_results_and_others_do_not() -> None:
    result = run_power_cuts(seed=3, cuts=2)
    assert result == run_power_cuts(seed=3, cuts=2)
    assert result != run_power_cuts(seed=4, cuts=2)
    assert result.acknowledged > 50
    assert result.failed > 0


def test_a_result_tells_what_it_found() -> None:
    result = PowerCutResult(
        cuts=1, acknowledged=5, failed=2, duplicates=3, lost=("a",), changed=(), out_of_order=(), took_s=4.0
    )
    assert not result.kept_every_promise
    assert "5 acknowledged, 2 failed, 3 duplicates, 1 lost, 0 changed, 0 out of order" in str(result)
