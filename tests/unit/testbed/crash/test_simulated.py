from __future__ import annotations

import re

import anyio
import pytest

from testbed.crash.simulated import cut_power, damage_files

pytestmark = pytest.mark.process


def test_the_simulation_says_how_it_went() -> None:
    result = anyio.run(cut_power, 3, 6)
    assert result.ok, result.findings
    assert re.fullmatch(r"\d+ power cuts in 2 programmes: \d+ acknowledged, 0 programmes failed", result.summary)
    assert result.findings == ()


def test_damage_is_tried_as_often_as_asked() -> None:
    result = anyio.run(damage_files, 3, 2)
    assert result.ok, result.findings
    assert result.summary.startswith("2 trials (")
    assert result.findings == ()


def test_what_it_died_of_is_a_finding() -> None:
    result = anyio.run(damage_files, 3, "none")  # type: ignore[arg-type]
    assert not result.ok
    assert result.summary == "the simulation did not finish"
    assert any("none" in line for line in result.findings)
