"""The folder of a cluster that keeps nothing: it is removed at the end, and by the next cluster if that end never came.

A cluster that is killed cannot tidy up. So it holds a lock on its folder, which the system releases however it ends,
and each of its brokers holds one on its data; a folder of ours without a lock that is held belongs to nobody any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from process.output import print_note

PREFIX = "rlab-cluster-"
_LOCK = "LOCK"  # the name that brokers give theirs too


@contextmanager
def cluster_folder(parent: Path | None = None) -> Iterator[Path]:
    """Make a folder for the data of a cluster, by default among the system's temporary ones, and remove it at the end.

    Raises:
        OSError: it cannot be made.
    """
    parent = parent or Path(tempfile.gettempdir())
    for left in leftovers(parent):
        print_note(f"removing {left}, which a cluster that was killed has left")
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as name, Path(name, _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def leftovers(parent: Path) -> list[Path]:
    """Find the folders of clusters of this user that no process uses any more."""
    return [folder for folder in sorted(parent.glob(f"{PREFIX}*")) if _is_left(folder)]


def _is_left(folder: Path) -> bool:
    try:
        # One without a lock file is about to get it.
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not (folder / _LOCK).is_file():
            return False
        return not any(map(_is_held, folder.rglob(_LOCK)))
    except FileNotFoundError:
        return False  # its cluster ends at this moment, or another one that starts is removing it


def _is_held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
