"""A damaged segment of a replica is replaced by the bytes of the master, or by nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.store.disk.errors import StoreBytesRefused
from tests.unit.broker.store.follower.follower_helpers import (
    adopt_indexes,
    follow,
    log_of,
    open_master,
    open_replica,
)
from tests.unit.broker.store.store_helpers import fill, offsets


def damaged_replica(tmp_path: Path) -> tuple[int, bytes]:
    """Make a replica with indexes one of whose segments is damaged; its base position, and its right bytes."""
    with open_master(tmp_path / "m") as master, open_replica(tmp_path / "r") as replica:
        fill(master, 40)
        follow(master, replica)
        adopt_indexes(master, replica)
    path = sorted((tmp_path / "r").glob("*.log"))[1]
    right = path.read_bytes()
    path.write_bytes(right[:150] + b"\xff" * 20 + right[170:])
    return int(path.stem), right


def test_a_damaged_segment_is_replaced_by_the_master_s_bytes(tmp_path: Path) -> None:
    base, right = damaged_replica(tmp_path)
    with open_replica(tmp_path / "r") as replica:
        replica.replace_segment(base, [right[:100], right[100:]])
        assert log_of(tmp_path / "r") == log_of(tmp_path / "m")
        index = f"{base:020d}.index"
        assert not (tmp_path / "r" / index).exists()
        replica.adopt_index(base, (tmp_path / "m" / index).read_bytes())
        replica.finish_sync(replica.begin_sync())
    with open_master(tmp_path / "r", (2, 2)) as promoted:
        assert promoted.damage.report() == ()
        assert offsets(promoted) == list(range(40))


def test_bytes_that_are_damaged_or_too_many_or_for_the_last_segment_replace_nothing(tmp_path: Path) -> None:
    base, right = damaged_replica(tmp_path)
    before = log_of(tmp_path / "r")
    with open_replica(tmp_path / "r") as replica:
        for at, parts in (
            (base, [right[:-1]]),
            (base, [b""]),
            (base, [right[:60], b"\0", right[61:]]),
            (base, [right, right[:0] + right]),
            (base + 1, [right]),
            (max(before), [right]),
        ):
            with pytest.raises(StoreBytesRefused):
                replica.replace_segment(at, parts)
    assert log_of(tmp_path / "r") == before
    assert not list((tmp_path / "r").glob("*.tmp"))
