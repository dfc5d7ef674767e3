"""Disks that fill up on demand, one for each broker of a simulated cluster.

A full disk fails as a real one does: the write that does not fit is done in part, and only the next one fails.
"""

from __future__ import annotations

import errno
import os
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

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Files.open`."""
        fd = super().open(path, create=create)
        self.open_files[fd] = path.relative_to(self._data_dir).parts[0]
        return fd

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
