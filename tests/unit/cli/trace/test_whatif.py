"""The command explains itself, and refuses what it cannot try before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app


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
