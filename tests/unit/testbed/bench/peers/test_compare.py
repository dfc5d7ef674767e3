from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.bench.peers.systems.registry import SYSTEMS, missing


@pytest.mark.process
@pytest.mark.tcp
def test_redis_is_measured_beside_ours_in_the_same_run(tmp_path: Path) -> None:
    if lacks := missing(SYSTEMS["redis-py"]):
        pytest.skip(f"{', '.join(lacks)} is missing: make peers")
    picture = tmp_path / "peers.svg"
    options = ["--peers", "redis", "--seconds", "0.1", "--repeat", "1", "--picture", str(picture), "--json"]
    command = [sys.executable, "-m", "cli.main", "bench", "send-1", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert result["medians"].keys() == {"rlab", "redis-py", "echo"}
    assert all(figure > 0 for figure in result["medians"].values())
    assert result["best"] == "redis-py"
    assert result["ratio"] == pytest.approx(result["medians"]["rlab"] / result["medians"]["redis-py"])
    assert result["interval"] == {"low": result["ratio"], "high": result["ratio"]}
    assert document["left_out"] == []
    assert "appendonly yes" in document["settings"][1]
    assert picture.read_text().startswith("<svg")
