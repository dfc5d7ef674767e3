"""The lock that keeps two brokers out of one data directory.

`flock` on the file `LOCK`, not the existence of the file: the system releases it however the process ends, so a crash
leaves nothing to clean up. The file holds the process id of the holder, only for the message.
"""

from __future__ import annotations

import os
from pathlib import Path

from broker.store.disk.errors import StoreInUse
from broker.store.disk.files import Files

LOCK_NAME = "LOCK"
_PID_BYTES = 32


class DirectoryLock:
    """A held lock. Its file is never removed: another process may have it open, and would lock a nameless file."""

    def __init__(self, files: Files, fd: int) -> None:
        self._files = files
        self._fd: int | None = fd

    @classmethod
    def acquire(cls, directory: Path, files: Files) -> DirectoryLock:
        """Take the lock of a directory without waiting.

        Args:
            directory: an existing directory.
            files: the file layer.

        Returns:
            The lock, held until `release`, or until the process ends.

        Raises:
            StoreInUse: another process (or another store of this one) holds it.
            OSError: the lock file cannot be made.
        """
        fd = files.open(directory / LOCK_NAME, create=True)
        try:
            if not files.try_lock(fd):
                holder = files.pread(fd, _PID_BYTES, 0).decode("ascii", "replace").strip() or "unknown"
                raise StoreInUse(
                    f"{directory} is in use by process {holder}: stop it, or give this broker its own data directory"
                )
            files.truncate(fd, 0)
            files.write_all(fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            files.close(fd)
            raise
        return cls(files, fd)

    def release(self) -> None:
        """Let the directory go. A second call does nothing."""
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None
