"""Medians, ratios and goals of a comparison, as rows of a table. Pure.

rounds of a measurement     rlab 100 120 110     redis-py 90 100 200     aiokafka 40 50 45
medians                     110                  100                     45
best peer                   redis-py: the best median
ratio                       median of 100/90, 120/100, 110/200: 1.11, as both sides of a round met the same minute
interval                    of that median, with 90 % confidence (`kit/interval.py`)
goal                        met if the interval's lower end is within it, of latencies the upper end; nothing is said
                            of an interval that is too wide, or of fewer rounds than an interval needs
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from testbed.bench.kit.host_share import CpuShares
from testbed.bench.kit.interval import MIN_ROUNDS, WIDEST_RATE, WIDEST_TAIL, Interval, median_interval
from testbed.bench.kit.interval import ratio as ratio_of
from testbed.bench.kit.report import MISSED, UNSURE, Goal, judge_ratio
from testbed.bench.peers.systems.protocol import OURS

ECHO = "echo"
BESIDE = frozenset({ECHO, "confluent-kafka"})
"""Never the best peer: the echo does nothing, and confluent-kafka is C and its threads."""

Rounds = Mapping[str, Sequence[float]]
"""The figures of each system, in the order of the rounds."""

GOALS = {
    "send-1": Goal(1.0, of_ratio=True, at_least=True),
    "send-64": Goal(2.0, of_ratio=True, at_least=True),
    "batches-32": Goal(1.1, of_ratio=True, at_least=True),
    "consume": Goal(1.5, of_ratio=True, at_least=True),
    "consume-32": Goal(1.0, of_ratio=True, at_least=True),
    "latency-20000-p50": Goal(1.5, of_ratio=True, at_least=False),
    "latency-20000-p99": Goal(0.6, of_ratio=True, at_least=False),
    "latency-40000-p99": Goal(0.9, of_ratio=True, at_least=False),
    "latency-60000-p99": Goal(1.0, of_ratio=True, at_least=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerComparison:
    """One measurement of all systems."""

    name: str
    unit: str
    medians: Mapping[str, float]
    rounds: Rounds
    best: str | None  # the best peer by its median; None without a peer
    ratio: float | None  # ours to the best peer's
    interval: Interval | None  # of that ratio
    of_echo: float | None  # ours to the echo's, where that is measured
    more_is_better: bool
    host: CpuShares | None  # the CPU time that the machine did not give to these rounds

    @property
    def goal(self) -> Goal | None:
        """The goal of the ratio to the best peer."""
        return GOALS.get(self.name)

    @property
    def verdict(self) -> str | None:
        """Whether the goal is met; None without a goal or a peer."""
        if self.goal is None or self.ratio is None or self.interval is None:
            return None
        if len(self.rounds[OURS]) < MIN_ROUNDS:
            return UNSURE
        if math.isinf(self.medians[OURS]):
            return MISSED  # messages were lost, whatever the peer did
        return judge_ratio(self.goal, self.ratio, self.interval, WIDEST_RATE if self.more_is_better else WIDEST_TAIL)


def compare(
    name: str, unit: str, rounds: Rounds, *, more_is_better: bool, host: CpuShares | None = None
) -> PeerComparison:
    """Compare the figures of all systems; see the module header."""
    medians = {system: median(figures) for system, figures in rounds.items()}
    peers = {system: figure for system, figure in medians.items() if system != OURS and system not in BESIDE}
    choose = max if more_is_better else min
    best = choose(peers, key=lambda system: peers[system]) if peers else None
    ratios = _ratios(rounds, best)
    of_echo = _ratios(rounds, ECHO)
    return PeerComparison(
        name=name,
        unit=unit,
        medians=medians,
        rounds={system: tuple(figures) for system, figures in rounds.items()},
        best=best,
        ratio=median(ratios) if ratios else None,
        interval=median_interval(ratios) if ratios else None,
        of_echo=median(of_echo) if of_echo else None,
        more_is_better=more_is_better,
        host=host,
    )


def _ratios(rounds: Rounds, to: str | None) -> list[float]:
    """Ours to another's, of each round; empty if one of them was not measured."""
    if to is None or to not in rounds or OURS not in rounds:
        return []
    return [ratio_of(ours, theirs) for ours, theirs in zip(rounds[OURS], rounds[to], strict=True)]


def columns(systems: Sequence[str]) -> tuple[str, ...]:
    """Headings of the table."""
    figures = [f">{system}" for system in systems]
    return ("measurement", "unit", *figures, ">of echo", ">of best peer", ">90 %", ">goal", "", ">host + others")


def as_row(comparison: PeerComparison, systems: Sequence[str]) -> tuple[str | None, ...]:
    """A row under these headings."""
    return (
        comparison.name,
        comparison.unit,
        *[figure(comparison.medians.get(system)) for system in systems],
        None if comparison.of_echo is None else f"{comparison.of_echo:.2f}",
        None if comparison.ratio is None else f"{comparison.ratio:.2f}",
        None if comparison.interval is None else str(comparison.interval),
        None if comparison.goal is None else str(comparison.goal),
        comparison.verdict or "",
        None if comparison.host is None else str(comparison.host),
    )


def figure(value: float | None) -> str | None:
    """A figure for a cell; None if the system was not measured."""
    if value is None:
        return None
    if value == float("inf"):
        return "lost"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
