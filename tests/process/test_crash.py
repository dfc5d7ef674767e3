"""The crash harness in its short form; `make crash` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tcp.rlab_process import TIMEOUT_S, environment

pytestmark = [pytest.mark.process, pytest.mark.tcp]

KILLS = 6


def test_nothing_acknowledged_is_lost_or_out_of_order_when_brokers_are_killed_under_load(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "cli.main",
            "crash",
            "--kills",
            str(KILLS),
            "--seed",
            "7",
            "--power-cuts",
            "1",
            "--damage",
            "8",
            "--json",
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        env=environment(TMPDIR=str(tmp_path)),
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    result = json.loads(done.stdout)
    verdict = result["verdict"]
    assert result["ok"]
    assert (result["seed"], result["kills"], sum(result["moments"].values())) == (7, KILLS, KILLS)
    assert set(verdict["findings"].values()) == {0}
    assert verdict["acknowledged"] > 100
    assert verdict["consumed"] >= verdict["acknowledged"] <= verdict["stored"]
    assert result["power_cuts"]["ok"]
    assert result["damage"]["ok"], result["damage"]["findings"]
    assert result["recoveries"]["n"] >= 2
    assert list(tmp_path.iterdir()) == [], "what the brokers stored is removed after a run without findings"
