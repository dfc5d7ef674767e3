"""The tables of several runs: their figures, and means with intervals over the runs. Pure.

    runs             a run and group: the figures of its report
    summary          a group and figure: mean, interval, least and largest over the runs
    windows          a run, group and window: the rows of the run's table `windows`
    windows_summary  a group, window and figure: mean and interval over the runs that lasted until then

If runs are compared with others, the column `side` has `this` for the former and `other` for the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from pipeline.report.data import Report, Rows, Totals
from pipeline.report.windows import SCHEMA as WINDOW_SCHEMA
from pipeline.runs.interval import MeanInterval, mean_interval
from pipeline.trace.rows import make_schema

THIS, OTHER = "this", "other"
FIGURES = tuple(field.name for field in fields(Totals) if field.name != "group")
"""Figures of a run, in the table `summary`."""
WINDOW_FIGURES = tuple(name for name in WINDOW_SCHEMA.names if name not in ("group", "window", "since_ms"))
_RUN = [("side", pa.string()), ("run", pa.string())]
_MEAN = make_schema(MeanInterval)
SCHEMAS = {
    "runs": make_schema(
        Totals, more=[*_RUN, ("span_ms", pa.float64()), ("events", pa.int64()), ("lost_events", pa.int64())]
    ),
    "summary": pa.schema(
        [
            *(("side", pa.string()), ("group", pa.string()), ("figure", pa.string())),
            *_MEAN,
            *(("least", pa.float64()), ("largest", pa.float64())),
        ]
    ),
    "windows": pa.schema([*_RUN, *WINDOW_SCHEMA]),
    "windows_summary": pa.schema(
        [
            *(("side", pa.string()), ("group", pa.string()), ("window", pa.int64()), ("since_ms", pa.float64())),
            ("figure", pa.string()),
            *_MEAN,
        ]
    ),
}
"""The columns of each table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """One run: its name, the contents of its report, and the rows of its table `windows`."""

    side: str
    name: str
    report: Report
    windows: Rows


def tables_of(runs: Sequence[ReportedRun]) -> dict[str, Rows]:
    """Return the rows of all tables."""
    return {
        "runs": list(_runs(runs)),
        "summary": list(_summary(runs)),
        "windows": [{"side": run.side, "run": run.name, **row} for run in runs for row in run.windows],
        "windows_summary": list(_windows_summary(runs)),
    }


def values_of(runs: Iterable[ReportedRun], side: str, group: str, figure: str) -> list[float]:
    """Return a figure of a group in each run of one side that has it, in the order of the runs."""
    values = (
        getattr(section.totals, figure)
        for run in runs
        if run.side == side
        for section in run.report.groups
        if section.totals.group == group
    )
    return [float(value) for value in values if value is not None]


def groups_of(runs: Iterable[ReportedRun]) -> list[str]:
    """Return the groups of some runs that owned queues, by name."""
    return sorted({section.totals.group for run in runs for section in run.report.groups})


def _runs(runs: Iterable[ReportedRun]) -> Iterator[dict[str, Any]]:
    for run in runs:
        report = run.report
        for section in report.groups:
            of_run = {"side": run.side, "run": run.name, "span_ms": report.span_ms}
            yield of_run | {"events": report.events, "lost_events": report.lost} | asdict(section.totals)


def _summary(runs: Sequence[ReportedRun]) -> Iterator[dict[str, Any]]:
    for side in (THIS, OTHER):
        for group in groups_of(run for run in runs if run.side == side):
            for figure in FIGURES:
                values = values_of(runs, side, group, figure)
                if values:
                    extremes = {"least": min(values), "largest": max(values)}
                    yield {"side": side, "group": group, "figure": figure} | asdict(mean_interval(values)) | extremes


def _windows_summary(runs: Iterable[ReportedRun]) -> Iterator[dict[str, Any]]:
    values: dict[tuple[str, str, int, float, str], list[float]] = {}
    for run in runs:
        for row in run.windows:
            for figure in WINDOW_FIGURES:
                if row[figure] is not None:
                    key = (run.side, row["group"], row["window"], row["since_ms"], figure)
                    values.setdefault(key, []).append(row[figure])
    for (side, group, window, since_ms, figure), samples in values.items():
        window_fields: Mapping[str, Any] = {"side": side, "group": group, "window": window, "since_ms": since_ms}
        yield {**window_fields, "figure": figure, **asdict(mean_interval(samples))}
