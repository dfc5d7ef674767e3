"""The figures of several runs as texts, for the page and for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipeline.report.charts import milliseconds
from pipeline.report.compare import COUNTS, TIMES
from pipeline.runs.figures import OTHER, THIS, Run, values_of
from pipeline.runs.interval import MeanInterval, difference, mean_interval

HEADS = ("figure", "runs", "mean", "95 % interval", "least to largest")
HEADS_OF_OTHERS = ("other mean", "other interval", "change", "interval of the change")
"""Further heads if the runs are compared with others."""


def compares(runs: Sequence[Run]) -> bool:
    """Whether there are other runs to compare with."""
    return any(run.side == OTHER for run in runs)


def figure_rows(runs: Sequence[Run], group: str) -> Iterator[list[str]]:
    """Yield the cells of each figure of a group, below `HEADS` and, if there are other runs, `HEADS_OF_OTHERS`."""
    for names, text in ((COUNTS, _count), (TIMES, _time)):
        for name, label in names:
            now, before = (values_of(runs, side, group, name) for side in (THIS, OTHER))
            cells = [label, *_cells(now, text)]
            if compares(runs):
                cells += [*_cells(before, text)[1:3], *_change(now, before)]
            yield cells


def _cells(values: Sequence[float], text: Callable[[float], str]) -> list[str]:
    """Return number, mean, interval and extremes of a figure."""
    if not values:
        return ["0", "-", "-", "-"]
    mean = mean_interval(values)
    return [f"{mean.n:,}", text(mean.mean), _interval(mean, text), f"{text(min(values))} to {text(max(values))}"]


def _interval(mean: MeanInterval, text: Callable[[float], str]) -> str:
    return "-" if mean.low is None or mean.high is None else f"{text(mean.low)} to {text(mean.high)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _time(value: float) -> str:
    """Format a time; the lower bound of an interval may be negative."""
    return milliseconds(value) if value >= 0 else f"-{milliseconds(-value)}"


def _change(now: Sequence[float], before: Sequence[float]) -> list[str]:
    """Return the change of a mean and its interval, in per cent of the other mean."""
    if not now or not before:
        return ["", ""]
    change, base = difference(now, before), mean_interval(before).mean
    if not base:
        return ["the same" if not change.mean else "new", ""]
    text = f"{change.mean / base:+.0%}"
    if change.low is None or change.high is None:
        return [text, "-"]
    return [text, f"{change.low / base:+.0%} to {change.high / base:+.0%}"]
