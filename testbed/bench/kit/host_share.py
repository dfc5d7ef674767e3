"""CPU time that this virtual machine wanted and its host gave to others, which worsens every figure.

Linux counts it as "steal" (proc(5)). Other effects of the host, such as a lower clock or a shared cache, are not
visible.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

WORTH_A_NOTE = 0.02
_STAT = Path("/proc/stat")
_IDLE, _WAITING, _STOLEN = 3, 4, 7
_COUNTED = 8
"""Fields of the first line that are counted; those after them are parts of the first two."""


class CpuTime(NamedTuple):
    """CPU time of all processors since the start of the machine, in ticks of a hundredth of a second."""

    used: int  # by anything
    stolen: int  # wanted while the host ran another machine


def read_cpu_time(stat: Path = _STAT) -> CpuTime | None:
    """Read the CPU time; None where there is no `/proc/stat`, as on macOS."""
    try:
        line = stat.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    ticks = [int(field) for field in line.split()[1:][:_COUNTED]]
    stolen = ticks[_STOLEN]
    return CpuTime(sum(ticks) - ticks[_IDLE] - ticks[_WAITING] - stolen, stolen)


def share_kept(before: CpuTime | None, after: CpuTime | None) -> float | None:
    """The part, from 0 to 1, of the CPU time wanted between two readings that the host withheld; None if unknown."""
    if before is None or after is None:
        return None
    stolen = after.stolen - before.stolen
    wanted = after.used - before.used + stolen
    return stolen / wanted if wanted > 0 else 0.0
