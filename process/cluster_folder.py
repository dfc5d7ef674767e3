"""The temporary data folder of a cluster: the cluster removes it at its end, or the next cluster does after a crash.

A cluster that is killed cannot clean up. So it holds a lock on its folder, which the system releases however the
cluster ends, and each of its brokers holds a lock on its data. A folder of ours in which no lock is held is no longer
in use.
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
_LOCK = "LOCK"  # brokers use the same name


@contextmanager
def cluster_folder(parent: Path | None = None) -> Iterator[Path]:
    """Create a folder for the data of a cluster, by default in the system's temporary folder, and remove it at the end.

    Raises:
        OSError: the folder cannot be created.
    """
    parent = parent or Path(tempfile.gettempdir())
    for left in leftovers(parent):
        print_note(f"removing {left}, the folder of a cluster that was killed")
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as name, Path(name, _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def leftovers(parent: Path) -> list[Path]:
    """Find the folders of clusters of this user that processes no longer use."""
    return [folder for folder in sorted(parent.glob(f"{PREFIX}*")) if _is_left(folder)]


def _is_left(folder: Path) -> bool:
    try:
        # A folder without a lock file was just created; its cluster is about to write the file.
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not (folder / _LOCK).is_file():
            return False
        return not any(map(_is_held, folder.rglob(_LOCK)))
    except FileNotFoundError:
        return False  # race: its cluster is just ending, or another cluster that starts removes it


def _is_held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
