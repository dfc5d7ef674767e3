"""The figures of several runs as texts, for the page and for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipeline.report.charts import milliseconds
from pipeline.report.compare import COUNTS, TIMES
from pipeline.runs.figures import OTHER, THIS, ReportedRun, values_of
from pipeline.runs.interval import MeanInterval, difference, mean_interval

HEADS = ("figure", "runs", "mean", "95 % interval")
EXTREMES = ("least to largest",)
"""A further head if the runs are not compared with others."""
OF_OTHERS = ("other mean", "other interval", "change", "interval of the change")
"""Further heads if they are."""


def compares(runs: Sequence[ReportedRun]) -> bool:
    """Whether there are other runs to compare with."""
    return any(run.side == OTHER for run in runs)


def heads_of(runs: Sequence[ReportedRun]) -> list[str]:
    """Return the heads of the cells of `figure_rows`."""
    return [*HEADS, *(OF_OTHERS if compares(runs) else EXTREMES)]


def figure_rows(runs: Sequence[ReportedRun], group: str) -> Iterator[list[str]]:
    """Yield the cells of each figure of a group, below `heads_of` the runs."""
    for names, text in ((COUNTS, _count), (TIMES, _time)):
        for name, label in names:
            this, other = (values_of(runs, side, group, name) for side in (THIS, OTHER))
            cells = [label, *_cells(this, text)]
            if compares(runs):
                cells += [*_cells(other, text)[1:], *_change(this, other)]
            else:
                cells.append(f"{text(min(this))} to {text(max(this))}" if this else "-")
            yield cells


def _cells(values: Sequence[float], text: Callable[[float], str]) -> list[str]:
    """Return the number of runs that have a figure, its mean and the interval."""
    if not values:
        return ["0", "-", "-"]
    mean = mean_interval(values)
    return [f"{mean.n:,}", text(mean.mean), _interval(mean, text)]


def _interval(mean: MeanInterval, text: Callable[[float], str]) -> str:
    return "-" if mean.low is None or mean.high is None else f"{text(mean.low)} to {text(mean.high)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _time(value: float) -> str:
    """Format a time; the lower bound of an interval may be negative."""
    return milliseconds(value) if value >= 0 else f"-{milliseconds(-value)}"


def _change(this: Sequence[float], other: Sequence[float]) -> list[str]:
    """Return the change of a mean and its interval, in per cent of the other mean."""
    if not this or not other:
        return ["", ""]
    change, base = difference(this, other), mean_interval(other).mean
    if not base:
        return ["the same" if not change.mean else "new", ""]
    text = f"{change.mean / base:+.0%}"
    if change.low is None or change.high is None:
        return [text, "-"]
    return [text, f"{change.low / base:+.0%} to {change.high / base:+.0%}"]
