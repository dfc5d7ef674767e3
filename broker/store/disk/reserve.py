"""Reserve: a file that occupies space on the disk, which is freed for starts and commits when the disk is full.

A broker on a full disk has no space to start with: recovery begins a segment, and the metadata needs its log. So it
frees the reserve at its start, and allocates it again when everything is open. While it cannot, it stores no messages,
and the rest of the disk is for commits; every few seconds it tries to allocate the reserve again, which succeeds once
retention, or an operator, has freed space.

    start on a disk with room        free, open the files, allocate    the reserve exists again
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
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full disk, or of a quota that is used up."""


class Reserve:
    """The reserve of one data directory; it occupies nothing before `allocate`, and never anything with a size of 0."""

    def __init__(self, directory: Path, files: Files, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.is_missing = False  # the disk had no space for it, so only commits may use the rest
        self.on_missing: Callable[[], None] | None = None  # called when it is missing from now on
        self._path = directory / RESERVE_NAME
        self._files = files

    def free(self) -> bool:
        """Free the room, and return whether there was any to free."""
        was_there = self._path.exists()
        try:
            self._files.remove(self._path)
        except OSError:
            return False
        return was_there

    def leave_to_commits(self) -> bool:
        """Free the room because a commit has found none; False if there was nothing to free."""
        if not self.free():
            return False
        self._report_missing()
        return True

    def _report_missing(self) -> None:
        is_new, self.is_missing = not self.is_missing, True
        if is_new and self.on_missing is not None:
            self.on_missing()

    def allocate(self) -> bool:
        """Allocate the file; returns False if the disk is full. Another error is logged, and the answer is True."""
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
            if error.errno in NO_ROOM:
                self._report_missing()
                return False
            logger.warning("no reserve of the disk: %s: %s", self._path, error)
        self.is_missing = False
        return True


def write_error(directory: Path, error: OSError) -> StoreError:
    """The error of a write to the log that the system refused."""
    if error.errno in NO_ROOM:
        return StoreFull(
            f"no room in {directory} ({error.strerror}): nothing of this batch is stored; free space or shorten "
            "the retention, sending works again at once"
        )
    return StoreWriteFailed(
        f"cannot write to {directory} ({error.strerror}): nothing of this batch is stored; check the disk, sending "
        "works again as soon as it takes a write"
    )
