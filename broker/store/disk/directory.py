"""The directory of a message store: is it ours, in our format, free and writable?

STORE                        marker: one line with the format version
LOCK                         held by the process that has the store open
00000000000000000000.log     segments, named after the log position of their first byte
00000000000000000000.index   their queue indexes (`segments/index.py`)
00000000000000000000.keys    what is in them by key and message id, once somebody asked (`keys/file.py`)
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from broker.store.disk.directory_lock import LOCK_NAME, DirectoryLock
from broker.store.disk.errors import (
    StoreForeign,
    StoreFormatUnsupported,
    StoreNotADirectory,
    StoreNotWritable,
    StoreUnusable,
)
from broker.store.disk.files import TEMPORARY_SUFFIX, Files

MARKER_NAME = "STORE"
FORMAT_VERSION = 1
_MARKER_PREFIX = "rebalance-lab message store, format "
_MARKER_BYTES = 4096
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def claim_directory(directory: Path, files: Files) -> DirectoryLock:
    """Create or check the directory of a store, and lock it.

    Args:
        directory: made with its parents if it does not exist.
        files: the file layer.

    Returns:
        The lock of the directory, which the caller has to release.

    Raises:
        StoreUnusable: one of its kinds; the directory is left as it was.
    """
    try:
        files.make_directory(directory)
        # Before the lock file is made: a foreign directory must not get as much as a file of ours.
        is_new = _is_new(directory, files.list_names(directory))
        lock = DirectoryLock.acquire(directory, files)
        try:
            if is_new:
                files.replace(directory / MARKER_NAME, f"{_MARKER_PREFIX}{FORMAT_VERSION}\n".encode(), durable=True)
                files.sync_directory(directory)
            else:
                _check_format(directory, files)
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise unusable(directory, error) from error
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
    if marker == f"{_MARKER_PREFIX}{FORMAT_VERSION}":
        return
    if marker.startswith(_MARKER_PREFIX):
        raise StoreFormatUnsupported(
            f"{directory} is in store format {marker.removeprefix(_MARKER_PREFIX)}, this version knows format "
            f"{FORMAT_VERSION}: start the version that wrote it, or use another data directory"
        )
    raise StoreForeign(
        f"{directory / MARKER_NAME} is not the marker of a message store (it begins {marker[:40]!r}): "
        "name an empty or a new directory as the data directory"
    )


def unusable(directory: Path, error: OSError) -> StoreUnusable:
    """Make the error that tells what to change from the one that the system raised while the store was opened."""
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
