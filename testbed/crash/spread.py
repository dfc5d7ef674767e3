"""Statistics of durations. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Statistics of durations in seconds; all 0 if there are no durations."""

    n: int
    min_s: float
    median_s: float
    p99_s: float  # 99 % of them are not longer
    max_s: float


def spread(durations: Iterable[float | None]) -> Spread:
    """Statistics of durations; unknown ones are None, and left out."""
    durations_s = sorted(duration for duration in durations if duration is not None)
    if not durations_s:
        return Spread(n=0, min_s=0.0, median_s=0.0, p99_s=0.0, max_s=0.0)
    p99_s = durations_s[math.ceil(0.99 * len(durations_s)) - 1]
    return Spread(
        n=len(durations_s), min_s=durations_s[0], median_s=median(durations_s), p99_s=p99_s, max_s=durations_s[-1]
    )
