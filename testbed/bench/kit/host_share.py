"""CPU time that this machine could not give to a measurement, which worsens every figure.

Two parts of the CPU time that was wanted: what the host of a virtual machine gave to others, which Linux counts as
"steal" (proc(5)), and what processes used that do not belong to the measurement. Other effects of the host, such as a
lower clock or a shared cache, are not visible.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

WORTH_A_NOTE = 0.02
_PROC = Path("/proc")
_IDLE, _WAITING, _STOLEN = 3, 4, 7
_COUNTED = 8
"""Fields of the first line of `/proc/stat` that are counted; those after them are parts of the first two."""
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of `/proc/PID/stat` behind the name: the parent, and user and system time, its own and of ended children."""


class CpuTime(NamedTuple):
    """CPU time of all processors since the start of the machine, in ticks of a hundredth of a second."""

    used: int  # by anything
    stolen: int  # wanted while the host ran another machine
    own: int = 0  # used by this process and its descendants


@dataclass(frozen=True, slots=True)
class CpuShares:
    """Parts, from 0 to 1, of the CPU time that was wanted during a measurement."""

    withheld: float  # by the host
    others: float  # used by processes that do not belong to the measurement

    def __str__(self) -> str:
        return f"{self.withheld:.0%} + {self.others:.0%}"


def read_cpu_time(proc: Path = _PROC) -> CpuTime | None:
    """Read the CPU time; None where there is no `/proc/stat`, as on macOS."""
    try:
        line = (proc / "stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    ticks = [int(field) for field in line.split()[1:][:_COUNTED]]
    stolen = ticks[_STOLEN]
    own_ticks = ticks_of_tree(_stats(proc), os.getpid())
    return CpuTime(sum(ticks) - ticks[_IDLE] - ticks[_WAITING] - stolen, stolen, own_ticks)


def _stats(proc: Path) -> Iterable[str]:
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            try:
                yield (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it has ended since


def ticks_of_tree(stats: Iterable[str], root: int) -> int:
    """CPU time of a process and its descendants, ended ones included, from `/proc/PID/stat` of all processes."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for stat in stats:
        pid, fields = int(stat.partition(" ")[0]), stat.rpartition(")")[2].split()
        children[int(fields[_PARENT])].append(pid)
        ticks[pid] = sum(int(field) for field in fields[_TIMES])
    total, left = 0, [root]
    while left:
        pid = left.pop()
        total += ticks.get(pid, 0)
        left += children[pid]
    return total


def cpu_shares(start: CpuTime | None, end: CpuTime | None) -> CpuShares | None:
    """The parts of the CPU time wanted between two readings that the measurement did not get; None if unknown."""
    if start is None or end is None:
        return None
    stolen, used = end.stolen - start.stolen, end.used - start.used
    needed_ticks = used + stolen
    if needed_ticks <= 0:
        return CpuShares(0.0, 0.0)
    # The times of processes and of processors are counted in different ways: they may differ by some ticks.
    others = max(0, used - (end.own - start.own))
    return CpuShares(stolen / needed_ticks, others / needed_ticks)
