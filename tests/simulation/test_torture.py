"""Torture: minutes of faults in every test run, an hour with RLAB_TORTURE_HOURS=1.

The verdict shows what was broken how often; `python -m simulation.runs.torture --seed N` prints the same as it goes.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from simulation.runs.torture import TortureOptions, run_torture

pytestmark = pytest.mark.simulation

HOURS = float(os.environ.get("RLAB_TORTURE_HOURS", "0"))
MINUTES = TortureOptions(seed=3, rounds=5, round_s=60.0, consumers=6, producers=2, rate=16.0, warm_up=1)


def test_after_all_torture_nothing_acknowledged_is_lost_and_nothing_has_grown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # clients and brokers complain all the time, and rightly
    options = TortureOptions(seed=7, rounds=max(4, round(12 * HOURS))) if HOURS else MINUTES
    verdict = run_torture(options, tmp_path)
    assert verdict.violations == []
    assert verdict.grown == []
    assert verdict.sent > 10 * options.rounds * options.rate, verdict
    assert verdict.dead_letters > 0
    assert verdict.deliveries_again > 0, "no fault was ever bad enough that a message came twice"
    assert {"crash", "crash_server", "cut", "fill_disk", "hang", "leave", "partition", "stop_server"} <= {
        *verdict.faults
    }
