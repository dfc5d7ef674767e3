"""The tree of an earlier commit, taken out of git into a temporary folder."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Have the tree of a commit in a folder while the block runs.

    Raises:
        SystemExit: this is no clone with that commit.
    """
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=False)
    if archive.returncode:
        reason = "".join(archive.stderr.decode().splitlines()[-1:])
        raise SystemExit(f"commit {commit} is needed, so a clone with its history: git fetch --unshallow ({reason})")
    with tempfile.TemporaryDirectory(prefix="rlab-compat-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
            tree.extractall(folder, filter="data")
        yield Path(folder)


def environment(tree: Path) -> dict[str, str]:
    """Ours with the packages of a tree first, and without anybody's settings of `rlab`.

    The packages that the tree depends on are those of this Python: so there is one environment to keep.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RLAB_")}
    return {**kept, "PYTHONPATH": str(tree)}
