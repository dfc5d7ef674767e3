"""Every verb is one that the engine can do, and reads only columns that a step has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from testbed.simulation.engine.acts import Acts
from testbed.simulation.engine.programme import Step
from testbed.simulation.engine.sets.acts import SetActs
from testbed.simulation.engine.verbs import VERBS

pytestmark = pytest.mark.walk


def test_the_engine_does_every_verb() -> None:
    done_by_acts = {name[1:] for name in vars(Acts) if name[1:] in VERBS}
    done_to_sets = {name for name in vars(SetActs) if name in VERBS} - {"heal"}
    assert not done_by_acts & done_to_sets
    assert done_by_acts | done_to_sets | {"heal", "heal_core"} == set(VERBS)


def test_a_verb_reads_columns_of_a_step() -> None:
    columns = {field.name for field in fields(Step)}
    for name, verb in VERBS.items():
        assert {*verb.needs, *verb.may} <= columns, name
        assert not set(verb.needs) & set(verb.may), name


def test_the_page_has_every_verb_and_its_columns() -> None:
    page = (Path(__file__).resolve().parents[5] / "docs/simulation.md").read_text(encoding="utf-8")
    table = page[page.index("## Verbs") : page.index("A test compares")]
    reported = {}
    for row in table.splitlines()[4:]:
        if row:
            verbs, _, columns, _ = row.strip("|").split("|")
            for verb in re.findall(r"`(\w+)`", verbs):
                reported[verb] = set(re.findall(r"`(\w+)`", columns))
    assert reported == {name: {*verb.needs, *verb.may} for name, verb in VERBS.items()}
