"""How much of the CPU time that this machine asked for its host gave to others: figures are worse by that.

A virtual machine that is ready to run and does not run sees it as «steal» (Linux, proc(5)). What a host slows down in
other ways, by a clock or a cache that is shared, shows nowhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

WORTH_SAYING = 0.02
_STAT = Path("/proc/stat")
_IDLE, _WAITING, _STOLEN = 3, 4, 7
_COUNTED = 8
"""Fields of its first line; those after them are parts of the first two."""


class CpuTime(NamedTuple):
    """Since the machine started, of all its processors, in ticks of a hundredth of a second.

    Attributes:
        used: by anything.
        stolen: asked for in vain, because the host ran another machine.
    """

    used: int
    stolen: int


def read_cpu_time(stat: Path = _STAT) -> CpuTime | None:
    """Read it; None where there is no `/proc/stat`, as on macOS."""
    try:
        line = stat.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    ticks = [int(field) for field in line.split()[1:][:_COUNTED]]
    stolen = ticks[_STOLEN]
    return CpuTime(sum(ticks) - ticks[_IDLE] - ticks[_WAITING] - stolen, stolen)


def share_kept(before: CpuTime | None, after: CpuTime | None) -> float | None:
    """Which part, from 0 to 1, of the CPU time that was asked for between the two the host kept; None if unknown."""
    if before is None or after is None:
        return None
    stolen = after.stolen - before.stolen
    wanted = after.used - before.used + stolen
    return stolen / wanted if wanted > 0 else 0.0
