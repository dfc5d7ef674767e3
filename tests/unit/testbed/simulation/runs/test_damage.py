"""Trials of damage: none has a finding, a seed decides them, and what nobody is told is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.store.ends import EndsFile
from broker.store.message_store import MessageStore
from testbed.simulation.faults.damage import damage_file
from testbed.simulation.runs.damage import run_damage

pytestmark = pytest.mark.simulation


def test_every_lost_message_is_reported_counted_and_shown() -> None:
    result = run_damage(seed=7, trials=12)
    assert result.findings == []
    assert result.lost > 50
    assert result.messages > 500
    assert str(run_damage(seed=7, trials=3)) == str(run_damage(seed=7, trials=3))


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        (EndsFile, "load", lambda self: None),  # nothing tells where the log ended
        (MessageStore, "on_damage", property(lambda self: None, lambda self, reported: None)),  # reads report no damage
    ],
    ids=["ends", "reads"],
)
def test_a_loss_that_is_reported_no_one_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, part: type, name: str, broken: Callable[[object], object]
) -> None:
    monkeypatch.setattr(part, name, broken, raising=False)
    assert run_damage(seed=1, trials=8).findings


def test_a_file_is_damaged_and_the_way_is_reported(tmp_path: Path) -> None:
    path, content = tmp_path / "0.log", bytes(range(1, 256))
    reported = set()
    for seed in range(40):
        path.write_bytes(content)
        text = damage_file(path, Random(seed))
        reported.add(text.split()[1])
        assert not path.exists() or path.read_bytes() != content
    assert reported == {"cut", "flip", "zero", "removed"}
