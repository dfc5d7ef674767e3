"""Results of benchmarks: the record that `--json` prints, the goals, and the rows of the table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.bench.kit.host_share import CpuShares
from testbed.bench.kit.interval import WIDEST_RATE, Interval

MET, MISSED, UNSURE = "met", "missed", "cannot say"
"""Verdicts about a goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure, with its baseline of the same run if it has one."""

    name: str
    value: float
    unit: str  # of `value` and `baseline_value`
    baseline_value: float | None = None
    ratio: float | None = None  # value divided by the baseline
    interval: Interval | None = None  # of the ratio, with 90 % confidence; None after a few rounds
    host: CpuShares | None = None  # the CPU time that the measurement did not get, where it is known
    note: str = ""  # facts about this machine that are needed to read it


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal for a figure. Shown only in the table, because it is about the project and not about the machine."""

    bound: float
    of_ratio: bool  # limits the ratio instead of the value
    at_least: bool  # a lower limit

    def admits(self, figure: float) -> bool:
        """Whether a figure is within the limit."""
        return figure >= self.bound if self.at_least else figure <= self.bound

    def verdict(self, result: Result) -> str:
        """Whether the figure is within the limit; see `judge_ratio` for a ratio that has an interval."""
        figure = result.ratio if self.of_ratio else result.value
        assert figure is not None, f"{result.name} has a goal for a ratio that it does not have"
        if self.of_ratio and result.interval is not None:
            return judge_ratio(self, figure, result.interval, WIDEST_RATE)
        return MET if self.admits(figure) else MISSED

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:,g}{' ×' if self.of_ratio else ''}"


def judge_ratio(goal: Goal, ratio: float, interval: Interval, widest: float) -> str:
    """Whether the end of the interval that is nearer to the limit is within it; a wide interval has no verdict."""
    if interval.width(ratio) > widest:
        return UNSURE
    return MET if goal.admits(interval.low if goal.at_least else interval.high) else MISSED


_LINEAR = Goal(1.15, of_ratio=False, at_least=False)

GOALS = {
    "send-64": Goal(0.6, of_ratio=True, at_least=True),
    "send-1": Goal(0.4, of_ratio=True, at_least=True),
    "pull-32": Goal(3.0, of_ratio=True, at_least=True),
    "filter-all": Goal(0.5, of_ratio=True, at_least=True),
    "filter-1%": Goal(0.8, of_ratio=True, at_least=True),
    "order": Goal(20.0, of_ratio=True, at_least=True),
    "order-cost": Goal(0.6, of_ratio=True, at_least=True),
    "pop-32": Goal(100_000.0, of_ratio=False, at_least=True),
    "pop-memory": Goal(300.0, of_ratio=False, at_least=False),
    "contrast-messages-p99": Goal(200.0, of_ratio=False, at_least=False),
    "sticky-first": Goal(10.0, of_ratio=False, at_least=False),
    "sticky-change": Goal(10.0, of_ratio=False, at_least=False),
    "join-100": Goal(150.0, of_ratio=False, at_least=False),
    "stall-killed-p99": Goal(1000.0, of_ratio=False, at_least=False),
    "stall-silent-p99": Goal(5000.0, of_ratio=False, at_least=False),
    **{f"trace-cost-{what}": Goal(3.0, of_ratio=False, at_least=False) for what in ("send", "consume")},
    **{f"access-cost-{what}": Goal(10.0, of_ratio=False, at_least=False) for what in ("send-64", "pull-32")},
    **{f"twice-{kind}": Goal(20.0, of_ratio=False, at_least=False) for kind in ("concurrent", "orderly")},
    **{f"twice-{kind}-untold": Goal(0.0, of_ratio=False, at_least=False) for kind in ("concurrent", "orderly")},
    **{f"twice-{kind}-excess": Goal(20.0, of_ratio=False, at_least=False) for kind in ("concurrent", "orderly")},
    "moves-100-gap-p99": Goal(200.0, of_ratio=False, at_least=False),
    "moves-100-duplicates": Goal(0.0, of_ratio=False, at_least=False),
    "moves-100-two-owners": Goal(0.0, of_ratio=False, at_least=False),
    "moves-overlapping-duplicates": Goal(1.0, of_ratio=False, at_least=True),
    **{f"width-{change}-{what}": _LINEAR for change in ("join", "leave", "crash") for what in ("bytes", "cpu")},
    **{f"overload-{kind}": Goal(0.7, of_ratio=True, at_least=True) for kind in ("sends", "lists", "routes")},
    **{f"overload-{kind}-left": Goal(0.0, of_ratio=False, at_least=False) for kind in ("sends", "lists", "routes")},
    **{f"overload-{kind}-balanced": Goal(5.0, of_ratio=False, at_least=False) for kind in ("sends", "lists", "routes")},
    "crowd-memory": Goal(100.0, of_ratio=False, at_least=False),
    "crowd-cpu": Goal(10.0, of_ratio=False, at_least=False),
    "memory-idle-consumer": Goal(20.0, of_ratio=False, at_least=False),
    "store-async": Goal(0.85, of_ratio=True, at_least=True),
    "catch-up": Goal(200_000.0, of_ratio=False, at_least=True),
    "recovery-stored-16x": Goal(1.5, of_ratio=True, at_least=False),
    "store-descriptors": Goal(1.0, of_ratio=True, at_least=False),
    "store-memory": Goal(1.0, of_ratio=True, at_least=False),
    "store-sync": Goal(20.0, of_ratio=True, at_least=True),
    "store-sync-slow": Goal(20.0, of_ratio=True, at_least=True),
    "copies-send-64": Goal(0.6, of_ratio=True, at_least=True),
    "copies-send-1": Goal(2.0, of_ratio=True, at_least=False),
    "copies-one": Goal(0.98, of_ratio=True, at_least=True),
    "copies-catch-up": Goal(300.0, of_ratio=False, at_least=True),
    "copies-catch-up-loaded": Goal(2.0, of_ratio=True, at_least=True),
    "copies-loaded-sends": Goal(0.8, of_ratio=True, at_least=True),
    "copies-memory": Goal(32.0, of_ratio=False, at_least=False),
    **{f"failover-{fault}-p50": Goal(3.0, of_ratio=False, at_least=False) for fault in ("kill", "hang")},
    **{f"failover-{fault}-p99": Goal(4.0, of_ratio=False, at_least=False) for fault in ("kill", "hang")},
    "failover-fast-p50": Goal(0.6, of_ratio=False, at_least=False),
    "failover-fast-p99": Goal(1.2, of_ratio=False, at_least=False),
    **{f"failover-{change}-p99": Goal(0.3, of_ratio=False, at_least=False) for change in ("handover", "stop")},
    "spark-read": Goal(250_000.0, of_ratio=False, at_least=True),
    "spark-parquet": Goal(120_000.0, of_ratio=False, at_least=True),
    "spark-write": Goal(80_000.0, of_ratio=False, at_least=True),
    "spark-trickle-p95": Goal(400.0, of_ratio=False, at_least=False),
    "spark-micro-kafka": Goal(1.0, of_ratio=True, at_least=True),
    "spark-copy-kafka": Goal(1.0, of_ratio=True, at_least=True),
    "spark-write-kafka": Goal(0.8, of_ratio=True, at_least=True),
    "spark-executors": Goal(1.5, of_ratio=True, at_least=True),
}

COLUMNS = ("benchmark", ">value", "unit", ">baseline", ">ratio", ">90 %", ">goal", "", ">host + others", "")


def as_rows(results: Sequence[Result]) -> list[tuple[str | None, ...]]:
    """Rows of a table with these columns."""
    return [_row(result, GOALS.get(result.name)) for result in results]


def _row(result: Result, goal: Goal | None) -> tuple[str | None, ...]:
    return (
        result.name,
        _figure(result.value),
        result.unit,
        None if result.baseline_value is None else _figure(result.baseline_value),
        None if result.ratio is None else f"{result.ratio:.2f}",
        None if result.interval is None else str(result.interval),
        None if goal is None else str(goal),
        "" if goal is None else goal.verdict(result),
        None if result.host is None else str(result.host),
        result.note,
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
