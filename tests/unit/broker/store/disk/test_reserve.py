"""Room that is kept: taken whole or not at all, and free when it is given up."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from broker.store.disk.files import Files
from broker.store.disk.reserve import RESERVE_NAME, Reserve

SIZE = 100_000


class Full(Files):
    """A disk that has taken half of what it is asked for."""

    def __init__(self, number: int) -> None:
        self.number = number

    def allocate(self, fd: int, size: int) -> None:
        super().allocate(fd, size // 2)
        raise OSError(self.number, os.strerror(self.number))


def test_what_is_taken_is_on_the_disk_until_it_is_abandoned(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path, Files(), SIZE)
    assert not reserve.free()
    assert reserve.allocate()
    assert (tmp_path / RESERVE_NAME).stat().st_blocks * 512 >= SIZE
    assert reserve.allocate()
    assert reserve.free()
    assert not (tmp_path / RESERVE_NAME).exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_part_of_it_is_given_back_and_messages_may_use_nothing(tmp_path: Path, number: int) -> None:
    reserve = Reserve(tmp_path, Full(number), SIZE)
    assert not reserve.allocate()
    assert reserve.is_missing
    assert not (tmp_path / RESERVE_NAME).exists()


def test_a_disk_that_cannot_reserve_is_not_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reserve = Reserve(tmp_path, Full(errno.EIO), SIZE)
    with caplog.at_level(logging.WARNING):
        assert reserve.allocate()
    assert not reserve.is_missing
    assert RESERVE_NAME in caplog.text


def test_a_reserve_of_nothing_makes_no_file(tmp_path: Path) -> None:
    assert Reserve(tmp_path, Full(errno.ENOSPC), 0).allocate()
    assert list(tmp_path.iterdir()) == []
