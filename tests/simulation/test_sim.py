"""Drawn programmes of each kind, some seeds; `rlab sim --seeds 1000 -j 2` runs many."""

from __future__ import annotations

import logging

import pytest

from simulation.engine.draw import KINDS, draw
from simulation.engine.run import run_programme

pytestmark = pytest.mark.simulation

SEEDS = range(2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_programme_breaks_no_promise(seed: int, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # clients and brokers complain all the time, and rightly
    outcome = run_programme(draw(seed, kind))
    assert [str(finding) for finding in outcome.findings] == [], f"rlab sim --seed {seed} --kind {kind}"
    assert outcome.sent > 50
    assert outcome.acts
