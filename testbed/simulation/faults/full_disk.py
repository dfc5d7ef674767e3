"""Disks that fill up on demand, one for each broker of a simulated cluster; and faults at a change of a disk.

A full disk fails as a real one does: the write that does not fit is done in part, and only the next one fails.
`before_change` calls a function in the middle of what a broker does: before its n-th change of a file or of a name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from broker.store.disk.files import Files
from testbed.simulation.cluster.servers import UnsyncedFiles
from testbed.simulation.faults.power_cut_files import PowerCutFiles

_FAILS_AT_ONCE_BYTES = 64
"""On a full disk a write of at most this many bytes fails at once; of a longer one the first half is written."""


class _DisksOfBrokers(Files):
    """The message files of all brokers; each has a directory of its name in `data_dir`."""

    def __init__(self, data_dir: Path) -> None:
        self.full: dict[str, None] = {}  # names of the brokers whose disk is full now
        self.open_files: dict[int, str] = {}  # open descriptor -> name of its broker
        self._data_dir = data_dir
        self._calls: dict[str, tuple[int, Callable[[], object]]] = {}  # name of a broker -> changes left, and the call

    def before_change(self, name: str, number: int, call: Callable[[], object]) -> None:
        """Call a function before the change of this number that a broker makes from now on, 1 being the next one."""
        self._calls[name] = number, call

    def forget_calls(self) -> None:
        """Call no function of `before_change` that was not called yet."""
        self._calls.clear()

    def _changes(self, name: str) -> None:
        if name not in self._calls:
            return
        left, call = self._calls[name]
        if left > 1:
            self._calls[name] = left - 1, call
        else:
            del self._calls[name]
            call()

    def _name(self, path: Path) -> str:
        return path.relative_to(self._data_dir).parts[0]

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Files.open`."""
        if create:
            self._changes(self._name(path))
        fd = super().open(path, create=create)
        self.open_files[fd] = self._name(path)
        return fd

    def truncate(self, fd: int, size: int) -> None:
        """See `Files.truncate`."""
        self._changes(self.open_files[fd])
        super().truncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        """See `Files.rename`."""
        self._changes(self._name(target))
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        """See `Files.remove`."""
        self._changes(self._name(path))
        super().remove(path)

    def duplicate(self, fd: int) -> int:
        """See `Files.duplicate`."""
        copy = super().duplicate(fd)
        self.open_files[copy] = self.open_files[fd]
        return copy

    def close(self, fd: int) -> None:
        """See `Files.close`."""
        self.open_files.pop(fd, None)
        super().close(fd)

    def allocate(self, fd: int, size: int) -> None:
        """See `Files.allocate`; fails with ENOSPC on a full disk."""
        if self.open_files.get(fd) in self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """See `Files.pwrite`; fails with ENOSPC on a full disk."""
        self._changes(self.open_files[fd])
        if self.open_files.get(fd) in self.full:
            if len(data) <= _FAILS_AT_ONCE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().pwrite(fd, data[: len(data) // 2], position)
        return super().pwrite(fd, data, position)


class FillingDisks(_DisksOfBrokers, UnsyncedFiles):
    """Disks that fill up, for runs in which processes crash and no machine loses power."""


class FillingDisksWithPowerCuts(_DisksOfBrokers, PowerCutFiles):
    """Disks that fill up, for runs in which machines also lose power."""

    def __init__(self, data_dir: Path) -> None:
        PowerCutFiles.__init__(self)
        _DisksOfBrokers.__init__(self, data_dir)
