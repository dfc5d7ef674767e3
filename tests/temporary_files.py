"""Where tests put their temporary files: in memory, where the machine has room for them.

Thousands of tests create, sync and remove small files, and a disk takes more time for that than the tests take for
everything else. What a test asserts is the same on both: a loss of power is simulated, by files that are cut. A folder
that `TMPDIR` names is used instead: `TMPDIR=/var/tmp make test` runs all tests on a disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

MEMORY = Path("/dev/shm")
"""The file system in memory that every Linux has."""
MIN_FREE_BYTES = 8 * 2**30
"""A run uses a fraction of it, as it removes the folder of each test that passed."""


def folder_in_memory(environ: Mapping[str, str] = os.environ, memory: Path = MEMORY) -> Path | None:
    """Create a folder for the temporary files of a run.

    Returns:
        The folder, or None if the tests have to do with the default one: `TMPDIR` names it, there is no file system in
        memory or it has too little room (64 MB in a container of Docker), or it does not let programs run, which
        some tests install.
    """
    if "TMPDIR" in environ or not os.access(memory, os.W_OK):
        return None
    found = os.statvfs(memory)
    if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < MIN_FREE_BYTES:
        return None
    return Path(tempfile.mkdtemp(prefix="rlab-tests-", dir=memory))
