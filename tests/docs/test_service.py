from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operating-brokers.md"
MOST_EXPOSURE = 2.0
"""Of 10, as systemd counts the rights that a service does not give up."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit of the page, with a program that exists here."""
    text = re.search(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert text, f"{PAGE} has no unit"
    file = tmp_path / "rlab-broker.service"
    file.write_text(text[1].replace("/opt/rlab/bin/rlab", sys.executable))
    return file


def analyze(*arguments: str) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing: it comes with systemd, which not every machine has")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong_with_the_unit_of_a_broker(unit: Path) -> None:
    assert analyze("verify", "--man=no", str(unit)).strip() == ""


def test_the_unit_of_a_broker_gives_up_the_rights_that_it_does_not_need(unit: Path) -> None:
    found = re.search(r"Overall exposure level.*: ([\d.]+)", analyze("security", "--offline=true", str(unit)))
    assert found
    assert float(found[1]) <= MOST_EXPOSURE
