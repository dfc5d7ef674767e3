"""The clock of leases, and the watch that finds out that a machine stood still.

A lease has to end while its machine sleeps, so its clock counts that time, and no user can set it: CLOCK_BOOTTIME of
Linux, CLOCK_MONOTONIC of macOS. (Python's monotonic clock stands still in a suspended system, on both.)

A virtual machine that its host has paused may find this clock where it was. The clock of the day is set right soon
after, or at once: if the two moved apart in a short time, all leases of before count as over.
"""

from __future__ import annotations

import time

APART_S = 0.1
"""The two clocks may move apart by that much between two looks: more than one step of a time service that corrects a
clock slowly, and less than a pause that matters to a lease."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """Seconds since the machine was started, the time counted that it was suspended."""
    return time.clock_gettime(_CLOCK)


class ClockWatch:
    """Compares two clocks. Pure."""

    def __init__(self, now: float, wall_ms: float) -> None:
        self._apart_s = wall_ms / 1000 - now

    def looked(self, now: float, wall_ms: float) -> bool:
        """Compare them; returns whether they have moved apart since the last look, so one of them stood or was set."""
        before, self._apart_s = self._apart_s, wall_ms / 1000 - now
        return abs(self._apart_s - before) > APART_S
