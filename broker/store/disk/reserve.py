"""Reserve: a file that keeps some disk space occupied.

When the disk is full, the file is removed, so that the broker can start and can commit. `write_error` makes the error
of a write that the system refused.

A broker on a full disk has no space to start with: recovery begins a segment, and the metadata needs its log. So it
frees the reserve at its start, and allocates it again when everything is open. Without a reserve it refuses
messages, and leaves the rest of the disk to commits. Every few seconds it tries to allocate the reserve again. This
succeeds once retention or an operator has freed space.

    start on a disk with space       free, open the files, allocate    the reserve exists again
    start on a full disk             free, open, allocate fails        sends are refused, reads and commits go on
    a commit finds no space          free, commit again                sends are refused, reads and commits go on
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable
from pathlib import Path

from broker.store.disk.errors import StoreError, StoreFull, StoreWriteFailed
from broker.store.disk.files import Files

logger = logging.getLogger(__name__)

RESERVE_NAME = "RESERVE"
DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full disk, or of a quota that is used up."""


class Reserve:
    """The reserve of one data directory: nothing before `allocate`, and no file at all with a size of 0."""

    def __init__(self, directory: Path, files: Files, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.is_missing = False  # the disk had no space for it, so only commits may use the rest
        self.on_missing: Callable[[], None] | None = None  # called when it becomes missing
        self._path = directory / RESERVE_NAME
        self._files = files

    def free(self) -> bool:
        """Remove the file; returns whether it was there."""
        was_there = self._path.exists()
        try:
            self._files.remove(self._path)
        except OSError:
            return False
        return was_there

    def free_for_commits(self) -> bool:
        """Free the space because a commit needs it; False if there was no reserve to free."""
        if not self.free():
            return False
        self._report_missing()
        return True

    def _report_missing(self) -> None:
        is_new, self.is_missing = not self.is_missing, True
        if is_new and self.on_missing is not None:
            self.on_missing()

    def allocate(self) -> bool:
        """Allocate the file; returns False if the disk is full. True also after another error, which is logged.

        After such an error the broker serves without a reserve: better than to refuse all sends.
        """
        try:
            if self.size_bytes:
                fd = self._files.open(self._path, create=True)
                try:
                    self._files.allocate(fd, self.size_bytes)
                finally:
                    self._files.close(fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._files.remove(self._path)  # a part of it would take space that commits need
            if error.errno in DISK_FULL_ERRORS:
                self._report_missing()
                return False
            logger.warning("no reserve of the disk: %s: %s", self._path, error)
        self.is_missing = False
        return True


def write_error(directory: Path, error: OSError) -> StoreError:
    """The error of a write to the log that the system refused."""
    if error.errno in DISK_FULL_ERRORS:
        return StoreFull(
            f"no space in {directory} ({error.strerror}): nothing of this batch is stored; free space or shorten "
            "the retention, sending works again at once"
        )
    return StoreWriteFailed(
        f"cannot write to {directory} ({error.strerror}): nothing of this batch is stored; check the disk, sending "
        "works again as soon as it takes a write"
    )
