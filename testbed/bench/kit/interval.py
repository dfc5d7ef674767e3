"""The interval of a median ratio, by bootstrap, and what may be concluded from it. Pure.

A bootstrap draws the rounds again, as many as there are and each possibly several times, and takes the median of each
draw; the interval has these medians without the lowest and the highest 5 %. It assumes nothing about how noise is
distributed, only that the rounds do not depend on one another: so they are short, and in random order.

The median of a draw is always one of the figures, and how often each of them is it can be computed. So nothing is drawn
here: the interval is that of infinitely many draws.

    15 rounds, ratios in their order: 1.00 1.05 1.10 1.12 1.15 ... 1.30 (the 11th) ...
    the median of a draw is below the 5th in less than 5 % of all draws, and above the 11th likewise: 1.15 to 1.30
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

CONFIDENCE = 0.90
MIN_ROUNDS = 15
"""With fewer rounds the interval of a median is too wide to be useful."""
WIDEST_RATE, WIDEST_TAIL = 0.15, 0.30
"""The widest intervals, as parts of the ratio, from which a verdict is made: of rates, and of latencies."""
SEED = 45
"""Seed of the random order of the rounds: the same command measures in the same order."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of a median."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}"

    def width(self, value: float) -> float:
        """The width as a part of this figure; infinite if the figure is 0."""
        if self.low == self.high:
            return 0.0
        width = (self.high - self.low) / value if value > 0 else math.inf
        return math.inf if math.isnan(width) else width


def ratio(value: float, baseline: float) -> float:
    """One figure divided by another; of two that are both infinite, or both zero, neither is better: 1."""
    if value == baseline:
        return 1.0
    return value / baseline if baseline else math.inf


def median_interval(figures: Sequence[float]) -> Interval:
    """The interval that has the median of some figures with `CONFIDENCE`; ValueError: there are no figures."""
    if not figures:
        raise ValueError("no rounds were measured")
    ordered, n, outside = sorted(figures), len(figures), (1 - CONFIDENCE) / 2
    low = next(k for k in range(1, n + 1) if _at_most(k, n, (n + 1) // 2) > outside)
    high = next(k for k in range(1, n + 1) if _at_most(k, n, n // 2 + 1) >= 1 - outside)
    return Interval(ordered[low - 1], ordered[high - 1])


def _at_most(k: int, n: int, rank: int) -> float:
    """The probability that of n draws from n figures, the one of a rank is at most the k-th smallest figure."""
    ways: int = sum(comb(n, j) * k**j * (n - k) ** (n - j) for j in range(rank, n + 1))
    all_ways: int = n**n
    return ways / all_ways
