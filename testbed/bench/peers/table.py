"""Medians, ratios and goals of a comparison, as rows of a table. Pure.

rounds of a measurement     rlab 100 120 110     redis-py 90 100 200     aiokafka 40 50 45
medians                     110                  100                     45
best peer                   redis-py: the best median
ratio                       median of 100/90, 120/100, 110/200: 1.11, as both sides of a round met the same minute
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from testbed.bench.kit.report import Goal
from testbed.bench.peers.systems.protocol import OURS

ECHO = "echo"
BESIDE = frozenset({ECHO, "confluent-kafka"})
"""Never the best peer: the echo does nothing, and confluent-kafka is C and its threads."""

Rounds = Mapping[str, Sequence[float]]
"""The figures of each system, in the order of the rounds."""

GOALS = {
    "send-1": Goal(1.1, of_ratio=True, at_least=True),
    "send-64": Goal(3.5, of_ratio=True, at_least=True),
    "consume": Goal(1.5, of_ratio=True, at_least=True),
    "consume-32": Goal(1.5, of_ratio=True, at_least=True),
    "latency-20000-p99": Goal(0.6, of_ratio=True, at_least=False),
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
    of_echo: float | None  # ours to the echo's, where that is measured
    more_is_better: bool

    @property
    def goal(self) -> Goal | None:
        """The goal of the ratio to the best peer."""
        return GOALS.get(self.name)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a peer."""
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio >= self.goal.bound if self.goal.at_least else self.ratio <= self.goal.bound


def compare(name: str, unit: str, rounds: Rounds, *, more_is_better: bool) -> PeerComparison:
    """Compare the figures of all systems; see the module header."""
    medians = {system: median(figures) for system, figures in rounds.items()}
    peers = {system: figure for system, figure in medians.items() if system != OURS and system not in BESIDE}
    choose = max if more_is_better else min
    best = choose(peers, key=lambda system: peers[system]) if peers else None
    return PeerComparison(
        name=name,
        unit=unit,
        medians=medians,
        rounds={system: tuple(figures) for system, figures in rounds.items()},
        best=best,
        ratio=_ratio(rounds, best),
        of_echo=_ratio(rounds, ECHO),
        more_is_better=more_is_better,
    )


def _ratio(rounds: Rounds, to: str | None) -> float | None:
    if to is None or to not in rounds or OURS not in rounds:
        return None
    return median(ours / theirs for ours, theirs in zip(rounds[OURS], rounds[to], strict=True))


def columns(systems: Sequence[str]) -> tuple[str, ...]:
    """Headings of the table."""
    return ("measurement", "unit", *[f">{system}" for system in systems], ">of echo", ">of best peer", ">goal", "")


def as_row(comparison: PeerComparison, systems: Sequence[str]) -> tuple[str | None, ...]:
    """A row under these headings."""
    met = comparison.met
    return (
        comparison.name,
        comparison.unit,
        *[figure(comparison.medians.get(system)) for system in systems],
        None if comparison.of_echo is None else f"{comparison.of_echo:.2f}",
        None if comparison.ratio is None else f"{comparison.ratio:.2f}",
        None if comparison.goal is None else str(comparison.goal),
        "" if met is None else "met" if met else "missed",
    )


def figure(value: float | None) -> str | None:
    """A figure for a cell; None if the system was not measured."""
    if value is None:
        return None
    if value == float("inf"):
        return "lost"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
