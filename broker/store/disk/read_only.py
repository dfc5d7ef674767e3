"""Files that stay as they are: what the store would write goes to another directory, which is thrown away.

So a data directory can be opened, recovered and read to its end by the code of a broker, without a trace of it.
"""

from __future__ import annotations

import os
from pathlib import Path

from broker.store.disk.files import Files


class ReadOnlyFiles(Files):
    """The files of one directory, none of which is changed; `scratch` is an empty directory for new ones."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._original: set[int] = set()  # descriptors of files that must not change

    def _copy(self, path: Path) -> Path:
        return self._scratch / path.name

    def make_directory(self, path: Path) -> None:
        """Do nothing: it has to be there."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Files.open`; a file of the directory itself is opened for reading."""
        if self._copy(path).exists() or (create and not path.exists()):
            return super().open(self._copy(path), create=create)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._original.add(fd)
        return fd

    def duplicate(self, fd: int) -> int:
        """See `Files.duplicate`."""
        copy = super().duplicate(fd)
        if fd in self._original:
            self._original.add(copy)
        return copy

    def close(self, fd: int) -> None:
        """See `Files.close`."""
        self._original.discard(fd)
        super().close(fd)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """See `Files.pwrite`; does nothing to a file of the directory itself."""
        return len(data) if fd in self._original else super().pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        """See `Files.truncate`; does nothing to a file of the directory itself."""
        if fd not in self._original:
            super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        """Do nothing: nothing here outlives the process."""

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename a new file; a file of the directory itself stays."""
        if self._copy(source).exists():
            super().rename(self._copy(source), self._copy(target))

    def remove(self, path: Path) -> None:
        """Remove a new file."""
        super().remove(self._copy(path))
