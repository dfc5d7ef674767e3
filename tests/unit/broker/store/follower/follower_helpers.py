"""What the tests of a replica's log share: a master, its replicas, and a process that ends in the middle of an act."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.store.follower.follower_log import FollowerLog
from broker.store.message_store import MessageStore
from broker.store.segments.epochs import common_epoch
from broker.store.segments.segment import segment_bases
from testbed.simulation.faults.power_cut_files import PowerCutFiles
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import ticking_clock

SMALL = StoreOptions(segment_bytes=400, tail_bytes=0, reserve_bytes=0)


def open_master(directory: Path, epoch: tuple[int, int] | None = (1, 1), files: Files | None = None) -> MessageStore:
    return MessageStore.open(directory, SMALL, ticking_clock(), files or FaultyFiles(), epoch=epoch)


def open_replica(directory: Path, files: Files | None = None) -> FollowerLog:
    return FollowerLog.open(directory, SMALL, files or FaultyFiles())


def follow(master: MessageStore, replica: FollowerLog, step: int = 150, pieces: int = -1) -> None:
    """Copy pieces of the master's log up to its end, or so many."""
    while replica.end_position < master.written_position and pieces:
        data, base = master.log_bytes(replica.end_position, step)
        replica.append(max(base, replica.end_position), base, data)
        pieces -= 1


def join(master: MessageStore, replica: FollowerLog, *, salvage: bool = False) -> int | None:
    """Cut the log of a replica where it leaves the master's, or discard it. Returns where."""
    at = common_epoch(*replica.history(), master.epochs, master.written_position)
    if at is None:
        replica.restart_at(master.min_position, salvage=salvage, epochs=master.epochs)
    else:
        replica.cut(at, salvage=salvage)
    return at


def adopt_indexes(master: MessageStore, replica: FollowerLog) -> None:
    """Take the index files of all segments that are complete at both."""
    master.sync()
    for path in sorted(replica_logs(replica_directory(replica)), key=lambda each: each.name)[:-1]:
        data = master.index_bytes(int(path.stem))
        if data is not None:
            replica.adopt_index(int(path.stem), data)
    replica.finish_sync(replica.begin_sync())


def replica_directory(replica: FollowerLog) -> Path:
    return replica._directory


def replica_logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def log_of(directory: Path) -> dict[int, bytes]:
    """The log of a directory as it is on the disk: base position -> bytes."""
    return {int(path.stem): path.read_bytes() for path in replica_logs(directory)}


def reading(data: bytes) -> Callable[[int, int], bytes]:
    """The function with which a scan reads bytes that are in memory: length and position -> bytes."""
    return lambda length, position: data[position : position + length]


def cut_to(log: dict[int, bytes], position: int) -> dict[int, bytes]:
    """The naive cut: what is left of each segment."""
    return {base: data[: position - base] for base, data in log.items() if base < position}


def copy_of(directory: Path, name: str) -> Path:
    """A copy of a directory beside it, as a process finds it that starts after a crash."""
    target = directory.parent / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target)
    return target


class ProcessEnded(BaseException):
    """The process is killed: its handlers no longer run."""


class EndingFiles(FaultyFiles):
    """Files of a process that is killed when it has changed them `left` times; None for never."""

    def __init__(self, left: int | None) -> None:
        super().__init__()
        self.left = left

    def _change(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise ProcessEnded
            self.left -= 1

    def make_directory(self, path: Path) -> None:
        self._change()
        super().make_directory(path)

    def open(self, path: Path, *, create: bool = False) -> int:
        if create:
            self._change()
        return super().open(path, create=create)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._change()
        return super().pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        self._change()
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._change()
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        self._change()
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._change()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._change()
        super().remove(path)


class EndingPowerCutFiles(EndingFiles, PowerCutFiles):
    """The same, and the machine loses its power in the same moment."""

    def __init__(self, left: int | None) -> None:
        PowerCutFiles.__init__(self)
        EndingFiles.__init__(self, left)

    def sync(self, fd: int) -> None:
        self._change()
        PowerCutFiles.sync(self, fd)

    def sync_directory(self, path: Path) -> None:
        self._change()
        PowerCutFiles.sync_directory(self, path)


def bases_of(directory: Path) -> list[int]:
    return segment_bases(path.name for path in directory.iterdir())
