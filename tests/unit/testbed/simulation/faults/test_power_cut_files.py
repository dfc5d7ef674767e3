"""A power cut takes what was not synced, names included, and nothing else."""

from __future__ import annotations

from pathlib import Path
from random import Random

from testbed.simulation.faults.power_cut_files import PowerCutFiles


class Disk:
    """A directory behind the layer, and what power cuts would leave of it."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "data"
        self.directory.mkdir()
        self.files = PowerCutFiles()
        self._root = root
        self._cuts = 0

    def write(self, name: str, *parts: bytes) -> int:
        fd = self.files.open(self.directory / name, create=True)
        for part in parts:
            self.files.write_all(fd, part, self.files.size(fd))
        return fd

    def outcomes(self, seeds: int = 60) -> list[dict[str, bytes]]:
        """What the disk would have after so many different cuts at this moment."""
        found = []
        for seed in range(seeds):
            self._cuts += 1
            survivor = self._root / f"survivor{self._cuts}"
            survivor.mkdir()
            for path in self.directory.iterdir():
                (survivor / path.name).write_bytes(path.read_bytes())
            self.files.cut(self.directory, survivor, Random(seed))
            found.append({path.name: path.read_bytes() for path in sorted(survivor.iterdir())})
        return found


def test_what_was_synced_with_its_name_is_always_there(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    fd = disk.write("a", b"one", b"two")
    disk.files.sync(fd)
    disk.files.sync_directory(disk.directory)
    disk.write("a", b"three")
    outcomes = disk.outcomes()
    assert all(outcome["a"].startswith(b"onetwo") for outcome in outcomes)
    assert {outcome["a"][6:] for outcome in outcomes} == {b"", b"t", b"th", b"thr", b"thre", b"three"}


def test_a_file_whose_name_was_not_synced_may_be_gone_whatever_was_in_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.files.sync(disk.write("a", b"one"))
    assert {tuple(outcome.items()) for outcome in disk.outcomes()} == {(), (("a", b"one"),)}


def test_writes_are_lost_from_some_moment_on_or_with_a_gap_of_zeros(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    fd = disk.write("a")
    disk.files.sync_directory(disk.directory)
    for part in (b"1", b"2", b"3"):
        disk.files.write_all(fd, part, disk.files.size(fd))
    assert {outcome["a"] for outcome in disk.outcomes()} == {
        b"",
        b"1",
        b"12",
        b"123",
        b"1\0003",
        b"\0002",
        b"\000\0003",
    }


def test_a_rename_into_another_folder_never_leaves_neither_name(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    fd = disk.write("a", b"one")
    disk.files.sync(fd)
    disk.files.sync_directory(disk.directory)
    (tmp_path / "kept").mkdir()
    disk.files.rename(disk.directory / "a", tmp_path / "kept" / "a")
    assert {"a" in outcome for outcome in disk.outcomes()} == {True, False}
    left = tmp_path / "left"
    left.mkdir()
    disk.files.cut(tmp_path / "kept", left, Random(1))
    assert (left / "a").read_bytes() == b"one"


def test_a_rename_happened_or_not_and_never_leaves_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    (disk.directory / "a").write_bytes(b"old")
    disk.files.replace(disk.directory / "a", b"new", durable=True)
    assert {outcome["a"] for outcome in disk.outcomes()} == {b"old", b"new"}
    disk.files.sync_directory(disk.directory)
    assert disk.outcomes(3) == [{"a": b"new"}] * 3


def test_a_removed_file_may_come_back_until_the_directory_is_synced(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    (disk.directory / "a").write_bytes(b"old")
    disk.files.remove(disk.directory / "a")
    assert {tuple(outcome) for outcome in disk.outcomes()} == {(), ("a",)}
    disk.files.sync_directory(disk.directory)
    assert disk.outcomes(3) == [{}] * 3


def test_a_truncation_may_be_lost_too(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    (disk.directory / "a").write_bytes(b"long")
    fd = disk.files.open(disk.directory / "a")
    disk.files.truncate(fd, 1)
    assert {outcome["a"] for outcome in disk.outcomes()} == {b"long", b"l"}


def test_a_sync_that_comes_after_the_cut_helps_no_one_and_a_new_start_has_what_is_left(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    old = disk.write("a", b"one")
    disk.files.forget(disk.directory)
    (disk.directory / "a").unlink()
    new = disk.write("a", b"two")
    disk.files.sync_directory(disk.directory)
    disk.files.sync(old)
    assert b"" in {outcome["a"] for outcome in disk.outcomes()}
    disk.files.sync(disk.files.duplicate(new))
    assert {outcome["a"] for outcome in disk.outcomes()} == {b"two"}


def test_the_database_is_left_alone(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    (disk.directory / "metadata.sqlite").write_bytes(b"rows")
    disk.files.close(disk.files.open(disk.directory / "metadata.sqlite", create=True))
    assert disk.outcomes(3) == [{"metadata.sqlite": b"rows"}] * 3
