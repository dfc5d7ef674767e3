"""The clock of leases, and the watch that detects that a machine was suspended.

A lease has to end while its machine sleeps, so its clock counts that time, and no user can set it: CLOCK_BOOTTIME of
Linux, CLOCK_MONOTONIC of macOS. (Python's monotonic clock stands still in a suspended system, on both.)

If the host of a virtual machine pauses it, this clock may not count the pause. But the wall clock is corrected at once
or soon after. So if the two clocks moved apart in a short time, all earlier leases count as over.
"""

from __future__ import annotations

import time

APART_S = 0.1
"""The two clocks may move apart by this much between two comparisons: more than one step of a time service that
corrects a clock slowly, and less than a pause that matters to a lease."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """Seconds since the machine was started, the time counted that it was suspended."""
    return time.clock_gettime(_CLOCK)


class ClockWatch:
    """Compares two clocks. Pure."""

    def __init__(self, now: float, wall_ms: float) -> None:
        self._apart_s = wall_ms / 1000 - now

    def looked(self, now: float, wall_ms: float) -> bool:
        """Compare the clocks; returns whether they moved apart since the last call: one of them stood or was set."""
        old_apart_s, self._apart_s = self._apart_s, wall_ms / 1000 - now
        return abs(self._apart_s - old_apart_s) > APART_S
