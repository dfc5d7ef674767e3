from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.store.disk.files import TEMPORARY_SUFFIX, Files
from tests.unit.broker.store.disk.faulty_files import FaultyFiles


def test_what_is_written_is_read_back_and_ends_at_the_end_of_the_file(tmp_path: Path) -> None:
    files = Files()
    fd = files.open(tmp_path / "a", create=True)
    files.write_all(fd, b"0123456789", 0)
    assert files.pread(fd, 4, 2) == b"2345"
    assert files.pread(fd, 100, 8) == b"89"
    assert files.pread(fd, 1, 10) == b""
    assert files.size(fd) == 10
    files.truncate(fd, 3)
    assert files.pread(fd, 100, 0) == b"012"
    files.close(fd)


@pytest.mark.parametrize("at_most", [1, 3, 7])
def test_a_write_that_the_system_takes_in_parts_is_completed(tmp_path: Path, at_most: int) -> None:
    files = FaultyFiles()
    files.write_at_most = at_most
    fd = files.open(tmp_path / "a", create=True)
    files.write_all(fd, b"0123456789", 0)
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    assert files.calls["pwrite"] == -(-10 // at_most)
    files.close(fd)


def test_opening_a_file_that_is_not_there_fails_unless_it_is_to_be_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Files().open(tmp_path / "a")


def test_a_duplicate_outlives_the_descriptor_it_was_made_from(tmp_path: Path) -> None:
    files = Files()
    fd = files.open(tmp_path / "a", create=True)
    second = files.duplicate(fd)
    files.close(fd)
    files.write_all(second, b"x", 0)
    files.sync(second)
    files.close(second)
    assert (tmp_path / "a").read_bytes() == b"x"


def test_replacing_a_file_leaves_the_old_content_when_it_fails(tmp_path: Path) -> None:
    files = FaultyFiles()
    path = tmp_path / "a"
    files.replace(path, b"old", durable=False)
    for operation in ("pwrite", "sync", "rename"):
        files.failing = {operation: 5}
        before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
        with pytest.raises(OSError, match="Input/output"):
            files.replace(path, b"new", durable=True)
        after = len(os.listdir("/proc/self/fd")) if before else 0
        assert after == before
        assert path.read_bytes() == b"old"
    files.failing = {}
    files.replace(path, b"n", durable=True)
    assert path.read_bytes() == b"n"
    assert not path.with_name("a" + TEMPORARY_SUFFIX).exists()


def test_a_created_file_stays_open_for_its_maker(tmp_path: Path) -> None:
    files = Files()
    fd = files.create(tmp_path / "a", b"head", durable=False)
    files.write_all(fd, b"tail", 4)
    files.close(fd)
    assert (tmp_path / "a").read_bytes() == b"headtail"


def test_a_lock_is_exclusive_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    files = Files()
    first = files.open(tmp_path / "a", create=True)
    second = files.open(tmp_path / "a")
    assert files.try_lock(first)
    assert not files.try_lock(second)
    files.close(first)
    assert files.try_lock(second)
    files.close(second)


def test_names_are_sorted_and_removing_twice_is_fine(tmp_path: Path) -> None:
    files = Files()
    files.make_directory(tmp_path / "x" / "y")
    files.make_directory(tmp_path / "x" / "y")
    for name in "bca":
        files.replace(tmp_path / "x" / name, b"", durable=False)
    files.sync_directory(tmp_path / "x")
    assert files.list_names(tmp_path / "x") == ["a", "b", "c", "y"]
    files.remove(tmp_path / "x" / "b")
    files.remove(tmp_path / "x" / "b")
    assert files.list_names(tmp_path / "x") == ["a", "c", "y"]
