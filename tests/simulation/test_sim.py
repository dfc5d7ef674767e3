"""Drawn programmes of each kind, some seeds; `rlab sim --seeds 1000 -j 2` runs many."""

from __future__ import annotations

import logging

import pytest

from model.quirks import Quirk
from testbed.simulation.engine.draw import KINDS, SET_KINDS, draw
from testbed.simulation.engine.run import run_programme
from testbed.simulation.engine.sweep import Case, run_case

pytestmark = pytest.mark.simulation

SEEDS = (0, 2)


@pytest.mark.parametrize("kind", [*KINDS, *SET_KINDS, "grpc"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_programme_breaks_no_promise(seed: int, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # clients and brokers complain all the time, and rightly
    outcome = run_programme(draw(seed, kind))
    assert [str(finding) for finding in outcome.findings] == [], f"rlab sim --seed {seed} --kind {kind}"
    assert outcome.sent > 50
    assert outcome.acts


@pytest.mark.parametrize("seed", [6, 7, 10])
def test_wrong_clocks_accuse_no_one(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    outcome = run_case(Case(seed=seed, wrong_clocks=True))
    assert [str(finding) for finding in outcome.findings] == [], f"rlab sim --seed {seed} --wrong-clocks"


def test_a_bug_is_named_with_wrong_clocks_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    quirk = str(Quirk.OVERLAPPING_HANDOVER)
    for wrong_clocks in (False, True):
        outcome = run_case(Case(seed=0, quirks=(quirk,), wrong_clocks=wrong_clocks))
        assert "double-owner" in outcome.kinds
