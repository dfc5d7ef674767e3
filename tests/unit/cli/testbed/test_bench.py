from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from cli.testbed.bench import register
from testbed.bench.catalog import BENCHMARKS

app = typer.Typer()
register(app)


@pytest.mark.process
@pytest.mark.tcp
def test_one_json_document_has_the_results_that_were_asked_for() -> None:
    options = ["--seconds", "0.2", "--repeat", "1", "--json"]
    command = [sys.executable, "-m", "cli.main", "bench", "send-1", "send-64", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["host_kept"] is None or 0 <= document["host_kept"] <= 1
    results = document["results"]
    assert [result["name"] for result in results] == ["send-1", "send-64"]
    for result in results:
        assert result.keys() == {"name", "value", "unit", "baseline_value", "ratio", "interval", "host", "note"}
        assert result["unit"] == "messages/s"
        assert result["ratio"] == pytest.approx(result["value"] / result["baseline_value"])


@pytest.mark.walk
def test_a_name_that_there_is_not_is_a_usage_error_that_notifies_the_others() -> None:
    result = CliRunner().invoke(app, ["send-65"], env={"TERMINAL_WIDTH": "200", **os.environ})
    assert result.exit_code == 2
    assert "send-65" in result.output
    assert all(name in result.output for name in BENCHMARKS)


def test_a_peer_that_there_is_not_is_a_usage_error_that_notifies_the_others() -> None:
    result = CliRunner().invoke(app, ["--peers", "redis,rabbit"], env={"TERMINAL_WIDTH": "200", **os.environ})
    assert result.exit_code == 2
    assert "rabbit" in result.output
    assert "redis, nats, kafka" in result.output


def test_only_measurements_of_peers_are_compared_and_only_a_comparison_has_a_picture() -> None:
    result = CliRunner().invoke(app, ["recovery", "--peers", "redis"], env={"TERMINAL_WIDTH": "200", **os.environ})
    assert result.exit_code == 2
    assert "latency" in result.output
    result = CliRunner().invoke(app, ["send-1", "--picture", "x.svg"], env={"TERMINAL_WIDTH": "200", **os.environ})
    assert result.exit_code == 2
    assert "--peers" in result.output
