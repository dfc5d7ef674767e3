"""Damage changes or removes one file, and equal generators do the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

from testbed.simulation.faults.damage import damage_file


def test_a_file_is_cut_or_removed_or_has_other_bytes(tmp_path: Path) -> None:
    done = set()
    for seed in range(40):
        path = tmp_path / f"{seed}.log"
        path.write_bytes(b"x" * 500)
        done.add(damage_file(path, Random(seed)).split()[1])
        assert not path.exists() or path.read_bytes() != b"x" * 500
    assert done == {"cut", "removed", "flip", "zero"}


def test_an_empty_file_can_only_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert damage_file(path, Random(0)) == "empty removed"
    assert not path.exists()
