"""Planted bugs are found and named; `make mutants` searches for all of them, this for one."""

from __future__ import annotations

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


@pytest.mark.process
def test_a_planted_bug_is_found_and_named() -> None:
    command = [sys.executable, "-m", "tests.simulation.mutants", "lease-granted-twice", "--here", "--seeds", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "lease-granted-twice: found by seed 0 as double-owner\n", done.stderr
    assert done.returncode == 0
