"""Memory and open file descriptors of a process, on Linux and macOS, without a package for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple


class ProcessUsage(NamedTuple):
    """Memory in RAM and open file descriptors of a process."""

    rss_bytes: int
    fds: int


def process_usage(pid: int | None = None) -> ProcessUsage:
    """Measure a process of this user, by default this process.

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
    """The output of a command; OSError if it fails, as both commands do for a process that has ended."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        raise ProcessLookupError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
