"""Planted bugs are found and named; `make mutants` searches for all of them, this for one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from model.quirks import Quirk
from tests.simulation.mutants import MUTANTS, QUIRKS
from tests.simulation.planted import ROOT, mutated

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_can_be_planted(mutant: object) -> None:
    assert isinstance(mutant, type(MUTANTS[0]))
    compile(mutated(mutant), mutant.file, "exec")


@pytest.mark.walk
def test_there_are_twenty_bugs_and_every_quirk() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    assert set(QUIRKS) == set(Quirk)


def test_the_page_has_the_first_seed_of_each_bug_and_quirk() -> None:
    page = (ROOT / "docs/simulation.md").read_text(encoding="utf-8")
    table = page.partition("| found by seed | what |\n")[2].partition("\n\n")[0]
    named = re.findall(r"(?<=`)[a-z-]+(?=`)|[A-Z]+(?:_[A-Z]+)+", table)
    assert sorted(named) == sorted([*(mutant.name for mutant in MUTANTS), *QUIRKS])


@pytest.mark.process
def test_a_planted_bug_is_found_and_named() -> None:
    command = [sys.executable, "-m", "tests.simulation.mutants", "lease-granted-twice", "--here", "--seeds", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "lease-granted-twice: found by seed 0 as double-owner\n", done.stderr
    assert done.returncode == 0
