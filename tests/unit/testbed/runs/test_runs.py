"""Many runs tell their progress, and one that fails is made small."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from testbed.runs import runs


@pytest.fixture(autouse=True)
def logs_stay_on() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)  # the command ends its process, and a test does not


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    # Twelve members need longer to start than brokers wait before they notify the first ones: queues move at the start.
    group = "[[group]]\nname = 'billing'\nmembers = 12\n"
    step = "[[step]]\nat_s = 1.0\ndo = 'crash'\nwho = 'billing-1'\n"
    path.write_text(f"[load]\nmessages = 10\n{group}{step}", encoding="utf-8")
    return path


def test_progress_of_a_long_sweep_is_reported(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "REPORT_EVERY", 1)
    done = CliRunner().invoke(app, ["sim", str(small), "--seeds", "2"])
    assert done.stderr == "1 of 2 seeds, 0 failed\n"


def test_a_programme_that_fails_is_made_small_and_written_as_a_file_and_as_a_test(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "found"
    defect = ["--quirk", "OVERLAPPING_HANDOVER"]
    done = CliRunner().invoke(app, ["sim", str(small), *defect, "--shrink", "--out", str(out)])
    assert done.exit_code == 1
    (toml,) = out.glob("*.toml")
    assert (out / f"test_{toml.stem}.py").exists()
    assert "[[step]]" not in toml.read_text(encoding="utf-8"), "members that start overlap already"
    assert CliRunner().invoke(app, ["sim", str(toml)]).exit_code == 1
    sound = CliRunner().invoke(app, ["sim", str(toml), "--sound"])
    assert sound.exit_code == 0
    assert re.search(r"  again      rlab sim \S+ --seed \d+ --sound\n", sound.stdout)
