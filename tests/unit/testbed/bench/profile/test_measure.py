from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.bench.profile.table import LOOP


@pytest.mark.process
@pytest.mark.tcp
def test_a_profile_has_the_rooms_that_a_message_passes_in_both_processes(tmp_path: Path) -> None:
    file = tmp_path / "profile.md"
    options = ["--seconds", "0.3", "--repeat", "2", "--profile", str(file), "--json"]
    command = [sys.executable, "-m", "cli.main", "bench", "send-64", "consume", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    profiles = json.loads(done.stdout)["profiles"]
    assert [(each["measurement"], each["process"]) for each in profiles] == [
        (name, process) for name in ("send-64", "consume") for process in ("client", "broker")
    ]
    for each in profiles:
        assert each["messages"] > 100
        assert 0.3 < (each["samples"]["user_s"] + each["samples"]["system_s"]) / each["messages"] * 1e6 < 1_000
    sends, _, consumption, _ = (part for part in file.read_text().split("us of CPU time a message")[1:])
    assert "| **client/produce** |" in sends
    assert f"| **{LOOP}** |" in file.read_text()
    assert "| **broker/store** |" in file.read_text()
    assert "| **client/pull** |" in consumption


def test_a_profile_is_about_our_own_processes_only() -> None:
    command = [sys.executable, "-m", "cli.main", "bench", "--profile", "x.md", "--peers", "redis"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--profile" in done.stderr
