"""What a process takes of the machine: memory and file descriptors, on Linux and on macOS, without a package for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple


class ProcessUsage(NamedTuple):
    """What one process has now.

    Attributes:
        rss_bytes: memory of it that is in RAM.
        fds: open file descriptors.
    """

    rss_bytes: int
    fds: int


def process_usage(pid: int | None = None) -> ProcessUsage:
    """Look at a process of this user.

    Args:
        pid: which one; None for this process.

    Raises:
        OSError: there is no such process, or it has ended.
    """
    process = os.getpid() if pid is None else pid
    proc = Path("/proc", str(process))
    if proc.exists():
        pages = int((proc / "statm").read_text(encoding="ascii").split()[1])
        return ProcessUsage(pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(proc / "fd")))
    kib = _output("ps", "-o", "rss=", "-p", str(process))
    files = _output("lsof", "-n", "-P", "-F", "f", "-p", str(process))
    return ProcessUsage(int(kib) * 1024, sum(line[1:].isdigit() for line in files.splitlines()))


def _output(*command: str) -> str:
    """What a command prints. Raises OSError when it fails: both say so by their exit code if the process is gone."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        raise ProcessLookupError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
