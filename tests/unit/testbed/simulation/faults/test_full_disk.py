"""A disk that fills up: half a write fits, the next one fails, and only on the broker that is meant."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from testbed.simulation.faults.full_disk import FillingDisks


def test_a_full_disk_takes_half_of_a_write_and_then_nothing(tmp_path: Path) -> None:
    disks = FillingDisks(tmp_path)
    (tmp_path / "broker-a").mkdir()
    fd = disks.open(tmp_path / "broker-a" / "log", create=True)
    disks.full["broker-a"] = None
    with pytest.raises(OSError, match="No space left") as failed:
        disks.write_all(fd, b"x" * 1000, 0)
    assert failed.value.errno == errno.ENOSPC
    assert 500 <= disks.size(fd) < 1000
    disks.full.clear()
    disks.write_all(fd, b"y" * 1000, 0)
    assert disks.pread(fd, 2000, 0) == b"y" * 1000
    disks.close(fd)


def test_the_other_broker_has_room_and_a_second_descriptor_is_the_same_disk(tmp_path: Path) -> None:
    disks = FillingDisks(tmp_path)
    fds = {}
    for name in ("broker-a", "broker-b"):
        (tmp_path / name).mkdir()
        fds[name] = disks.open(tmp_path / name / "log", create=True)
    disks.full["broker-a"] = None
    disks.write_all(fds["broker-b"], b"z", 0)
    second = disks.duplicate(fds["broker-a"])
    with pytest.raises(OSError, match="No space left"):
        disks.write_all(second, b"z", 0)
    assert len(disks.open_files) == 3
    for fd in (second, *fds.values()):
        disks.close(fd)
    assert disks.open_files == {}


def test_a_function_is_called_once_before_the_change_of_its_number_and_reads_do_not_count(tmp_path: Path) -> None:
    disks = FillingDisks(tmp_path)
    for name in ("broker-a", "broker-b"):
        (tmp_path / name).mkdir()
    path, seen = tmp_path / "broker-a" / "log", list[int]()
    disks.before_change("broker-a", 3, lambda: seen.append(path.stat().st_size))
    fd = disks.open(path, create=True)
    disks.write_all(fd, b"one", 0)
    disks.close(disks.open(tmp_path / "broker-b" / "log", create=True))
    assert disks.pread(fd, 10, 0) == b"one"
    assert seen == []
    disks.truncate(fd, 1)
    assert seen == [3]
    disks.rename(path, tmp_path / "broker-a" / "other")
    disks.remove(tmp_path / "broker-a" / "other")
    disks.before_change("broker-a", 1, lambda: seen.append(0))
    disks.forget_calls()
    disks.write_all(fd, b"two", 0)
    disks.close(fd)
    assert seen == [3]
