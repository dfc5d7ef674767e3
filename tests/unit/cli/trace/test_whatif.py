"""The command explains itself, refuses what it cannot try at once, and replays a short trace without Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from model.event_log import encode_events
from tests.unit.pipeline.replay.golden_trace import golden_events


def test_the_help_has_an_example_and_names_every_option() -> None:
    text = CliRunner().invoke(app, ["whatif", "--help"]).stdout
    assert "Example: rlab whatif trace.jsonl" in text
    for option in ("--group", "--strategy", "--interval", "--session-timeout", "--handover", "--no-notify", "--top"):
        assert option in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--handover", "throw"], "handover must be drain, cut or overlap; got throw"),
        (["--strategy", "MINE"], "strategy must be one of AVG"),
        (["--interval", "0"], "interval_ms must be 100 to 3600000, got 0"),
        (["--recorded-strategy", "MINE"], "--recorded-strategy must be one of AVG"),
        (["--capacity", "0"], "--capacity must be a number above 0, got 0"),
        (["--capacity", "-3"], "--capacity must be a number above 0, got -3"),
        (["--capacity", "nan"], "--capacity must be a number above 0, got nan"),
        (["--capacity", "inf"], "--capacity must be a number above 0, got inf"),
        ([], "there is no trace"),
    ],
)
def test_what_cannot_be_tried_is_refused_at_once(tmp_path: Path, options: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["whatif", str(tmp_path / "none.jsonl"), *options])
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_short_trace_is_replayed_and_written_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pipeline.spark.session", None)  # its import would be an error
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(encode_events(golden_events()))
    options = ["whatif", str(trace), "--recorded-timeout", "5", "--interval", "20", "--handover", "drain"]
    result = CliRunner().invoke(app, [*options, "--json", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["baseline"]["wrong_queues"] == 0
    assert document["front"]
    assert (tmp_path / "out" / "whatif.parquet" / "part-0.parquet").exists()
    shown = CliRunner().invoke(app, options)
    assert "the replay is exact" in shown.stdout
    assert "Spark" not in shown.stderr
