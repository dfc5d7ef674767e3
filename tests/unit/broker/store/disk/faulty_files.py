"""A disk that fails on request."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from broker.store.disk.files import Files


class FaultyFiles(Files):
    """The real file system, until told otherwise; but syncs are only counted, as no test outlives a loss of power.

    Attributes:
        failing: operation name -> errno it raises.
        room: bytes that may still be written before ENOSPC; None for no limit.
        write_at_most: bytes that one write takes; None for all.
        calls: how often each operation was called.
    """

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.room: int | None = None
        self.write_at_most: int | None = None
        self.calls: Counter[str] = Counter()

    def _enter(self, operation: str) -> None:
        self.calls[operation] += 1
        if operation in self.failing:
            number = self.failing[operation]
            raise OSError(number, os.strerror(number))

    def open(self, path: Path, *, create: bool = False) -> int:
        self._enter("open")
        return super().open(path, create=create)

    def duplicate(self, fd: int) -> int:
        self._enter("duplicate")
        return super().duplicate(fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self._enter("pread")
        return super().pread(fd, length, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._enter("pwrite")
        if self.room == 0:
            raise OSError(28, "No space left on device")
        if self.room is not None:
            data = data[: self.room]
            self.room -= len(data)
        return super().pwrite(fd, data[: self.write_at_most], position)

    def truncate(self, fd: int, size: int) -> None:
        self._enter("truncate")
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._enter("sync")

    def sync_directory(self, path: Path) -> None:
        self._enter("sync_directory")

    def rename(self, source: Path, target: Path) -> None:
        self._enter("rename")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._enter("remove")
        super().remove(path)
