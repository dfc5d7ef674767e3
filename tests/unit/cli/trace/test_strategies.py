"""The command explains itself; what it computes is in `tests/spark/test_strategies_job.py`."""

from __future__ import annotations

from typer.testing import CliRunner

from cli.main import app


def test_the_help_has_an_example_and_names_every_option() -> None:
    text = CliRunner().invoke(app, ["strategies", "--help"]).stdout
    assert "Example: rlab strategies --queues 1000000" in text
    for option in ("--queues", "--consumers", "--events", "--scenarios", "--strategy", "--master", "--out", "--json"):
        assert option in text
