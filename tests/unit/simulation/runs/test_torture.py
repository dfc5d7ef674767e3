"""The torture itself: a seed is a history, defects are found, and the command says what it found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model.quirks import Quirk
from simulation.runs.torture import TortureOptions, TortureVerdict, run_torture

pytestmark = pytest.mark.simulation

SMALL = TortureOptions(seed=5, rounds=2, round_s=20.0, consumers=2, producers=1, rate=10.0, warm_up=0)


def test_equal_options_give_equal_histories(tmp_path: Path) -> None:
    histories = []
    for name in ("first", "second"):
        lines: list[str] = []
        data_dir = tmp_path / name
        data_dir.mkdir()
        verdict = run_torture(SMALL, data_dir, lines.append)
        # What the process takes is the machine's; all else is the seed's.
        histories.append((verdict.faults, verdict.deliveries, [line.partition(" timers")[0] for line in lines]))
    assert histories[0] == histories[1]
    assert len(histories[0][2]) == SMALL.rounds


def test_offsets_that_go_back_are_found(tmp_path: Path) -> None:
    options = replace(SMALL, rounds=3, round_s=60.0, consumers=4, quirks=frozenset({Quirk.OFFSETS_GO_BACK}))

    def found(seed: int) -> bool:
        data_dir = tmp_path / str(seed)
        data_dir.mkdir()
        return any(
            "goes back" in violation for violation in run_torture(replace(options, seed=seed), data_dir).violations
        )

    # About every second history has a member that is slow enough for it.
    assert any(found(seed) for seed in (7, 3, 4, 8, 9, 10))


def test_a_verdict_is_good_only_if_nothing_was_violated_and_nothing_has_grown() -> None:
    assert TortureVerdict().ok
    assert not TortureVerdict(violations=["lost"]).ok
    assert not TortureVerdict(grown=["tasks grows: 1 1 99 99"]).ok
