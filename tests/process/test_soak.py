"""The soak in its short form; `make soak` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.soak.run import BROKERS, NAME_SERVERS
from tests.tcp.rlab_process import ROOT, TIMEOUT_S, environment

# Some seconds of each thing that the long form does for half an hour.
OPTIONS = ["--minutes", "0.1", "--rate", "200", "--kill-every", "1.5", "--members", "2", "--rotations", "1", "--json"]

pytestmark = [pytest.mark.process, pytest.mark.tcp]


def test_while_processes_are_killed_and_keys_change_nothing_is_lost_the_group_converges_and_servers_stay_level(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "testbed.soak.run", *OPTIONS],
        check=False,
        capture_output=True,
        text=True,
        timeout=5 * TIMEOUT_S,
        cwd=ROOT,
        env=environment(TMPDIR=str(tmp_path)),
    )
    assert done.stdout, done.stderr[-2_000:]
    verdict = json.loads(done.stdout)
    assert verdict["wrong"] == [], done.stderr
    assert done.returncode == 0
    assert verdict["sent"] > 100
    assert verdict["received"] >= verdict["sent"]
    assert verdict["rotations"] == 1
    assert verdict["kills"].keys() & {*BROKERS}
    assert verdict["kills"].keys() & {*NAME_SERVERS}
    assert "member" in verdict["kills"]
    assert len(verdict["converged_s"]) == sum(verdict["kills"].values())
    assert {f"{name}: RSS MiB" for name in (*BROKERS, *NAME_SERVERS)} <= verdict["levels"].keys()
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "its files are removed"
