"""Checks that the directory of a message store is ours, in our format, free and writable, and locks it.

STORE                        marker: one line with the format version
REPLICA                      of a set of replicas: which of them this is (`replica/directory.py`); REPLICA.LOCK its lock
LOCK                         locked by the process that has the store open, as the directory itself is
ENDS                         where the log and its queues begin and end (`ends.py`)
CUT                          where the log is being cut, while that is not finished (`follower/cut.py`)
salvage/                     the bytes that such cuts removed (`follower/salvage.py`)
RESERVE                      room for when the disk is full (`reserve.py`)
metadata.sqlite              topics, groups, offsets (`broker/durability/metadata.py`, which makes it)
00000000000000000000.log     segments, named after the log position of their first byte
00000000000000000000.index   their queue indexes (`segments/index.py`)
00000000000000000000.keys    their indexes by key and message id, made by the first query (`keys/file.py`)
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from pathlib import Path

from broker.store.disk.errors import (
    StoreForeign,
    StoreFormatUnsupported,
    StoreInUse,
    StoreLockLost,
    StoreNotADirectory,
    StoreNotWritable,
    StoreOfSet,
    StoreUnusable,
)
from broker.store.disk.files import TEMPORARY_SUFFIX, Files

logger = logging.getLogger(__name__)

MARKER_NAME = "STORE"
METADATA_NAME = "metadata.sqlite"
REPLICA_NAME = "REPLICA"
FORMAT_VERSION, REPLICA_FORMAT_VERSION = 1, 2
"""The second marks a directory of a set of replicas: an earlier version, which knows no epochs, has to refuse it."""
_MARKER_PREFIX = "rebalance-lab message store, format "
_MARKER_BYTES = 4096
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def claim_directory(directory: Path, files: Files) -> DirectoryLock:
    """Create or check the directory of a store, and lock it; the caller has to release the lock.

    Raises:
        StoreUnusable: the subclass is the reason; the directory is unchanged.
    """
    try:
        files.make_directory(directory)
        # Checked before the lock file is created, so that a foreign directory gets no file of ours.
        is_new = _is_new(directory, files.list_names(directory))
        lock = DirectoryLock.acquire(directory, files)
        try:
            if is_new:
                files.replace(directory / MARKER_NAME, f"{_MARKER_PREFIX}{FORMAT_VERSION}\n".encode(), durable=True)
                files.sync_directory(directory)
            else:
                _check_format(directory, files)
        except BaseException:  # of any class: only this function can release the lock yet
            lock.release()
            raise
    except OSError as error:
        raise to_store_error(directory, error) from error
    return lock


def _is_new(directory: Path, names: list[str]) -> bool:
    if MARKER_NAME in names:
        return False
    foreign = [name for name in names if name not in (LOCK_NAME, MARKER_NAME + TEMPORARY_SUFFIX)]
    if foreign:
        raise StoreForeign(
            f"{directory} is not a message store and not empty (it holds {foreign[0]!r}): "
            "name an empty or a new directory as the data directory"
        )
    return True


def _check_format(directory: Path, files: Files) -> None:
    fd = files.open(directory / MARKER_NAME)
    try:
        marker = files.pread(fd, _MARKER_BYTES, 0).decode("utf-8", "replace").strip()
    finally:
        files.close(fd)
    if marker in (f"{_MARKER_PREFIX}{FORMAT_VERSION}", f"{_MARKER_PREFIX}{REPLICA_FORMAT_VERSION}"):
        return
    if marker.startswith(_MARKER_PREFIX):
        raise StoreFormatUnsupported(
            f"{directory} is in store format {marker.removeprefix(_MARKER_PREFIX)}, this version knows formats "
            f"{FORMAT_VERSION} and {REPLICA_FORMAT_VERSION}: start the version that wrote it, or use another data "
            "directory"
        )
    raise StoreForeign(
        f"{directory / MARKER_NAME} is not the marker of a message store (it begins {marker[:40]!r}): "
        "name an empty or a new directory as the data directory"
    )


def mark_replica(directory: Path, files: Files) -> None:
    """Mark a store as one of a set of replicas, for earlier versions.

    Raises:
        OSError: the marker is as it was.
    """
    files.replace(directory / MARKER_NAME, f"{_MARKER_PREFIX}{REPLICA_FORMAT_VERSION}\n".encode(), durable=True)
    files.sync_directory(directory)


def check_alone(directory: Path) -> None:
    """Check that a data directory does not belong to a set of replicas.

    Raises:
        StoreOfSet: it does.
    """
    if (directory / REPLICA_NAME).exists():
        raise StoreOfSet(
            f"{directory} belongs to a set of replicas: start it with --copies or --replica-of. Messages stored "
            f"without the others would be lost; to take it out of the set for good, remove the file {REPLICA_NAME}"
        )


def to_store_error(directory: Path, error: OSError) -> StoreUnusable:
    """Turn an error of the operating system while a store is opened into one that says what to change."""
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreNotADirectory(f"{error.filename or directory} is not a directory: name another data directory")
    if error.errno in _NOT_WRITABLE:
        return StoreNotWritable(
            f"cannot write {error.filename or directory} as user {os.geteuid()} ({error.strerror}): change its "
            "owner or its mode, or name another data directory"
        )
    return StoreUnusable(
        f"cannot use {directory} ({error}): free space or check the disk, or name another data directory"
    )


LOCK_NAME = "LOCK"
_PID_BYTES = 32


class DirectoryLock:
    """The lock that keeps two brokers out of one data directory, held until `release`, or until the process ends.

    The lock is an `flock` on the directory itself and one on the file `LOCK`, which earlier versions lock alone. That
    the file exists means nothing. The system releases both however the process ends, so a crash leaves nothing to clean
    up. The file has the holder's process id, only for the error message. The broker never removes it, because a process
    that has it open would then lock a file without a name. When an operator removes it, the lock of the directory
    still keeps other brokers out, except those of earlier versions, or on a file system that locks no directories
    (NFS), or when the whole directory was moved away. So the holder calls `check` regularly.
    """

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._path = directory / LOCK_NAME
        self._fd: int | None = None
        self._directory_fd: int | None = None

    @classmethod
    def acquire(cls, directory: Path, files: Files) -> DirectoryLock:
        """Acquire the lock of an existing directory without waiting.

        Raises:
            StoreInUse: another process (or another store of this one) holds it.
            OSError: the lock file cannot be created.
        """
        lock = cls(files, directory)
        try:
            # The directory first: where it is locked, LOCK belongs to its holder, and must not be made again.
            lock._lock_directory()
            lock._lock_file()
        except BaseException:
            lock.release()
            raise
        return lock

    def _lock_directory(self) -> None:
        self._directory_fd = self._files.open_directory(self._path.parent)
        try:
            is_free = self._files.try_lock(self._directory_fd)
        except OSError as error:
            logger.info("%s cannot be locked as a directory (%s), only by %s", self._path.parent, error, LOCK_NAME)
            return
        if not is_free:
            with contextlib.suppress(FileNotFoundError):
                self._fd = self._files.open(self._path)
            raise self._in_use()

    def _lock_file(self) -> None:
        self._fd = fd = self._files.open(self._path, create=True)
        if not self._files.try_lock(fd):
            raise self._in_use()
        self._files.truncate(fd, 0)
        with contextlib.suppress(OSError):  # it is only for the message, and a full disk may have no room for it
            self._files.write_all(fd, f"{self._files.process_id()}\n".encode(), 0)

    def _in_use(self) -> StoreInUse:
        content = b"" if self._fd is None else self._files.pread(self._fd, _PID_BYTES, 0)
        holder = content.decode("ascii", "replace").strip() or "unknown"
        return StoreInUse(
            f"{self._path.parent} is in use by process {holder}: stop it, or give this broker its own data directory"
        )

    def check(self) -> None:
        """Check that the directory is still the one that was locked, and that `LOCK` was neither removed nor replaced.

        Raises:
            StoreLockLost: it is not; this store may no longer write there.
        """
        assert self._fd is not None, "released"
        try:
            is_held = self._files.is_named(self._fd, self._path)
        except OSError:
            return  # a disk that answers nothing shows no other broker; reads and writes report it
        if not is_held:
            raise StoreLockLost(
                f"{self._path} was removed or replaced while this broker was running: another broker may write there "
                "now, so this one stops; check that no other process uses the directory, then start the broker again "
                f"(never remove {LOCK_NAME}: the lock of a process that has ended is free)"
            )

    def release(self) -> None:
        """Release the directory. A second call does nothing."""
        for fd in (self._fd, self._directory_fd):
            if fd is not None:
                self._files.close(fd)
        self._fd = self._directory_fd = None
