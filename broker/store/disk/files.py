"""Every file operation of the message store, in one small class, so that a test can replace it with a failing disk.

The store calls nothing of `os` itself. A subclass that raises ENOSPC or EIO, writes fewer bytes than it was given,
or forgets unsynced writes, is all that a crash test needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path


class Files:
    """The real file system. Every method may raise `OSError`; the store turns it into an error that says what to do."""

    is_shared = True
    """Whether other processes read a data directory while its broker runs, as a backup does."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents; one that exists is fine."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def list_names(self, directory: Path) -> list[str]:
        """Names in a directory, sorted, because the order of the file system differs between machines."""
        return sorted(os.listdir(directory))

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file for reading and writing, and return a descriptor, which belongs to the caller.

        With `create`, a file that does not exist is made, empty.
        """
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def open_directory(self, path: Path) -> int:
        """Open a directory, to lock it, and return a descriptor, which belongs to the caller."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def duplicate(self, fd: int) -> int:
        """Return a second descriptor of the same open file, which outlives the first."""
        return os.dup(fd)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def size(self, fd: int) -> int:
        """Return the length of an open file in bytes."""
        return os.fstat(fd).st_size

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file (short reads are completed here)."""
        data = os.pread(fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing and (data := os.pread(fd, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """Write some of `data`, and return how many bytes. The system may take fewer than given."""
        return os.pwrite(fd, data, position)

    def write_all(self, fd: int, data: bytes, position: int) -> None:
        """Write all of `data`, in one system call unless the system takes less."""
        n_written = self.pwrite(fd, data, position)
        while n_written < len(data):
            n_written += self.pwrite(fd, memoryview(data)[n_written:], position + n_written)

    def truncate(self, fd: int, size: int) -> None:
        """Cut an open file to `size` bytes."""
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        """Give an empty open file `size` bytes of the disk, whatever they hold."""
        if sys.platform == "linux":
            os.posix_fallocate(fd, 0, size)
        else:
            self.write_all(fd, bytes(size), 0)

    def sync(self, fd: int) -> None:
        """Return once the content and the length of the file are on the disk itself. May block for long."""
        if sys.platform == "darwin":
            # There, fsync only hands the data to the drive, which may still lose it.
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory (files made, renamed, removed) are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, replacing `target` atomically."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        path.unlink(missing_ok=True)

    def process_id(self) -> int:
        """Return the id of this process, which a lock file shows."""
        return os.getpid()

    def boot_id(self) -> str:
        """Return a text that changes when the machine starts; empty where the system has none."""
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            return ""

    def try_lock(self, fd: int) -> bool:
        """Acquire the exclusive lock of an open file, without waiting; it ends with the descriptor or the process."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_named(self, fd: int, path: Path) -> bool:
        """Whether a path still names an open file: it was not removed, and no other file was put in its place."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def create(self, path: Path, data: bytes, *, durable: bool) -> int:
        """Write a whole file so that, whenever this stops, either the old content or all of the new is there.

        Returns a descriptor, which belongs to the caller; it is made before the rename, so that nothing can fail after
        it. With `durable`, the content is synced before it replaces the old; the directory is left to the caller.
        """
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        fd = self.open(temporary, create=True)
        try:
            self.truncate(fd, 0)
            self.write_all(fd, data, 0)
            if durable:
                self.sync(fd)
            self.rename(temporary, path)
        except OSError:
            self.close(fd)
            with contextlib.suppress(OSError):
                self.remove(temporary)  # on a full disk a part of a file is in the way of everything else
            raise
        return fd

    def replace(self, path: Path, data: bytes, *, durable: bool) -> None:
        """As `create`, without keeping the file open."""
        self.close(self.create(path, data, durable=durable))


TEMPORARY_SUFFIX = ".tmp"
"""Suffix of files that an interrupted `create` left behind."""
