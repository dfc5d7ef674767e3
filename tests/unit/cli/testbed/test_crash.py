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
    assert "3 brokers need at least 3 --kills" in " ".join(done.stderr.split())


def test_files_go_into_a_new_directory(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["crash", "--data", str(tmp_path)])
    assert done.exit_code == 2
    assert "--data needs a new directory" in done.stderr
