"""Its options; a whole run is in `tests/process/test_crash.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app


@pytest.mark.parametrize("flags", [["--kills", "0"], ["--brokers", "0"], ["--rate", "0"], ["--consumers", "65"]])
def test_impossible_figures_are_usage_errors(flags: list[str]) -> None:
    assert CliRunner().invoke(app, ["crash", *flags]).exit_code == 2


def test_every_broker_is_killed_once_at_least() -> None:
    done = CliRunner().invoke(app, ["crash", "--kills", "2", "--brokers", "3"])
    assert done.exit_code == 2
    assert "--kills is at least the number of brokers, 3" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--faults", "3"], "--faults is for runs with --copies"),
        (["--copies", "2", "--power-cuts", "3"], "a run with --copies has no --power-cuts"),
        (["--copies", "2", "--kills", "3"], "a run with --copies has no --kills"),
        (["--copies", "1"], "2<=x<="),
    ],
)
def test_an_option_that_the_run_does_not_have_is_a_usage_error(flags: list[str], text: str) -> None:
    done = CliRunner().invoke(app, ["crash", *flags])
    assert done.exit_code == 2
    assert text in " ".join(done.stderr.replace("│", " ").split())


def test_files_go_into_a_new_directory(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["crash", "--data", str(tmp_path)])
    assert done.exit_code == 2
    assert "--data needs a new directory" in done.stderr
