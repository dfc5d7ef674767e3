"""The crash harness with copies in its short form; `make crash-copies` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from model.replica_limits import LEASE_S
from tests.tcp.rlab_process import TIMEOUT_S, environment

pytestmark = [pytest.mark.process, pytest.mark.tcp]


def test_nothing_acknowledged_is_lost_and_no_queue_moves_when_replicas_die_and_masters_hand_over(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "cli.main", "crash", "--copies", "2", "--faults", "3", "--failovers", "2"),
            *("--handovers", "2", "--losses", "1", "--rate", "200", "--seed", "7", "--json"),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=5 * TIMEOUT_S,
        env=environment(TMPDIR=str(tmp_path)),
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    result = json.loads(done.stdout)
    verdict, acts = result["verdict"], result["acts"]
    assert set(verdict["findings"].values()) == {0}
    assert verdict["consumed"] >= verdict["acknowledged"] <= verdict["stored"]
    assert verdict["acknowledged"] > 500
    assert {act: figures["n"] for act, figures in acts.items()} == {
        "killed": 1,
        "stopped": 1,
        "paused": 1,
        "handed over": 1,
        "master stopped": 1,
        "master killed": 1,
        "master paused": 1,
        "master lost": 1,
    }
    assert {figures["moved"] for figures in acts.values()} == {0} != {result["moved_by_joins"]}
    assert acts["master lost"]["gap"]["max_s"] > LEASE_S, "sends cannot have gone on before the lease was over"
    assert [step["act"] for step in result["steps"]].count("master lost") == 1
    assert result["read_back"] == result["copies"] == 2
    assert list(tmp_path.iterdir()) == [], "what the replicas stored is removed after a run without findings"
