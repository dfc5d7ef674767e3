"""The page of several runs: for each group its figures with intervals, and their course by window. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import quote

from model.counted import plural
from pipeline.report import charts
from pipeline.report.charts import both, milliseconds
from pipeline.report.data import Rows
from pipeline.report.html import document, table
from pipeline.runs.figures import OTHER, THIS, ReportedRun, groups_of
from pipeline.runs.words import figure_rows, heads_of

RUN_FOLDERS = {THIS: "runs", OTHER: "other-runs"}
"""The folders with the reports of the runs, beside the page."""
MOST_GROUPS = 12
"""Maximum number of groups with sections; further groups are only named."""
_OVER_TIME = (
    ("moves", "Moves of queues", "moves"),
    ("orphan_ms", "Queues without an owner, summed", "ms"),
    ("duplicates", "Messages that came twice", "messages"),
    ("lag", "Lag at the end of each window", "messages"),
    ("latency_ms", "Time from store to dispatch", "ms"),
)


def page(runs: Sequence[ReportedRun], tables: dict[str, Rows], window_ms: float) -> str:
    """Return the whole file, from the runs and their `figures.tables_of`."""
    groups = groups_of(runs)
    n = {side: sum(run.side == side for run in runs) for side in (THIS, OTHER)}
    against = f", compared with {plural(n[OTHER], 'other run')}" if n[OTHER] else ""
    incomplete = [run.name for run in runs if run.report.lost or run.report.missing or run.report.clocks]
    names = escape(", ".join(incomplete))
    warning = f' <span class="warn">Of these runs events are missing, or clocks were wrong: {names}.</span>'
    parts = [
        f"<h1>What rebalances cost in {plural(n[THIS], 'run')}</h1>",
        f'<p class="soft">{escape(", ".join(groups)) or "No group owned a queue"}{against}. Intervals have the mean '
        "with 95 % confidence, by Student's t distribution, if the runs are independent, for instance runs with "
        f"different seeds.{warning if incomplete else ''}</p>",
    ]
    for group in groups[:MOST_GROUPS]:
        parts.append(f"<section><h2>Group {escape(group)}</h2>{_figures(runs, group)}")
        parts += [*_over_time(tables["windows_summary"], group, window_ms), "</section>"]
    if len(groups) > MOST_GROUPS:
        parts.append(f"<p>Not shown: {escape(', '.join(groups[MOST_GROUPS:]))}.</p>")
    parts.append(_runs(runs))
    return document(f"Rebalances of {plural(len(runs), 'run')}", "".join(parts), [])


def _figures(runs: Sequence[ReportedRun], group: str) -> str:
    first, *others = heads_of(runs)
    return table([first, *(f"*{head}" for head in others)], figure_rows(runs, group))


def _over_time(rows: Rows, group: str, window_ms: float) -> Iterator[str]:
    yield f'<h3>Over time</h3><p class="hint">By windows of {milliseconds(window_ms)} since the first event of a run. '
    yield 'A thick line is the mean over the runs, thin lines are its interval; <span class="key"><span>'
    yield '<i class="k-line"></i>these runs</span> <span><i class="k-other"></i>other runs</span></span></p>'
    for figure, title, unit in _OVER_TIME:
        series: list[tuple[str, list[tuple[float, float]]]] = []
        for side in (THIS, OTHER):
            series_rows = [row for row in rows if (row["side"], row["group"], row["figure"]) == (side, group, figure)]
            series_rows.sort(key=lambda row: float(row["window"]))
            for bound, style in (("mean", side), ("low", f"{side} bound"), ("high", f"{side} bound")):
                points = [(row["since_ms"], max(0.0, row[bound])) for row in series_rows if row[bound] is not None]
                if points:
                    series.append((style, points))
        if any(value for _, points in series for _, value in points):
            span_ms = max(since_ms for _, points in series for since_ms, _ in points) + window_ms
            yield f"<h4>{title}</h4>{_drawn(series, span_ms, unit)}"


def _drawn(series: Sequence[tuple[str, Sequence[tuple[float, float]]]], span_ms: float, unit: str) -> str:
    return both(lambda width: charts.lines(series, [], span_ms, unit, width, steps=True))


def _runs(runs: Sequence[ReportedRun]) -> str:
    heads = ("run", "side", "*length", "*events", "*missing events", "*moves", "*without an owner", "*came twice")

    def row(run: ReportedRun) -> list[str]:
        totals = [section.totals for section in run.report.groups]
        return [
            f'<a href="{RUN_FOLDERS[run.side]}/{quote(run.name)}/index.html">{escape(run.name)}</a>',
            run.side,
            milliseconds(run.report.span_ms),
            f"{run.report.events:,}",
            f"{run.report.lost:,}",
            f"{sum(each.moves for each in totals):,}",
            milliseconds(sum(each.orphan_ms for each in totals)),
            f"{sum(each.duplicates for each in totals):,}",
        ]

    return f"<h2>The runs</h2>{table(heads, map(row, runs))}"
