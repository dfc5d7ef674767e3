from __future__ import annotations

import anyio
import pytest

from cli.crash.simulated import cut_power, damage_files

pytestmark = pytest.mark.process


def test_the_simulation_says_how_it_went() -> None:
    result = anyio.run(cut_power, 3, 1)
    assert result.ok, result.findings
    assert result.summary.startswith("1 power cuts in ")
    assert result.findings == ()


def test_damage_is_tried_as_often_as_asked() -> None:
    result = anyio.run(damage_files, 3, 2)
    assert result.ok, result.findings
    assert result.summary.startswith("2 trials (")
    assert result.findings == ()


def test_what_it_died_of_is_a_finding() -> None:
    result = anyio.run(cut_power, 3, "none")  # type: ignore[arg-type]
    assert not result.ok
    assert result.summary == "the simulation did not finish"
    assert any("none" in line for line in result.findings)
