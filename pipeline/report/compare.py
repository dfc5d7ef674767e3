"""Compares two runs: the figures of each group in both, and the change. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from pipeline.report.charts import milliseconds
from pipeline.report.data import Report, Totals

COUNTS = (
    ("rebalances", "rebalances that moved queues"),
    ("moves", "moves of queues"),
    ("needed", "moves needed"),
    ("duplicates", "messages came twice"),
    ("possible_duplicates", "more may have come twice"),
    ("backlog_max", "largest lag of a new owner"),
)
"""Figures of `Totals` that are numbers, with their words."""
TIMES = (
    ("balance_p50_ms", "time to balance, median"),
    ("balance_p95_ms", "time to balance, 95 of 100"),
    ("pause_ms", "pauses of queues, summed"),
    ("pause_max_ms", "longest pause"),
    ("orphan_ms", "queues without an owner, summed"),
    ("double_ms", "queues with two owners, summed"),
)
"""Figures of `Totals` that are times."""


def compare_runs(report: Report, against: Report) -> str:
    """Return a table for each group that both runs have, and the names of groups that only one has."""
    other_totals = {each_group.totals.group: each_group.totals for each_group in against.groups}
    now = {each_group.totals.group: each_group.totals for each_group in report.groups}
    both = [name for name in now if name in other_totals]
    parts = ["<h2>Compared with the other run</h2>"]
    parts.append(
        f'<p class="hint">This run took {milliseconds(report.span_ms)}, the other one {milliseconds(against.span_ms)}: '
        "sums grow with the length of a run.</p>"
    )
    for name in both:
        parts += [f"<h3>Group {escape(name)}</h3>" if len(both) > 1 else "", _table(other_totals[name], now[name])]
    for which, names in (("this", now.keys() - other_totals.keys()), ("the other", other_totals.keys() - now.keys())):
        if names:
            parts.append(f"<p>Only in {which} run: {escape(', '.join(sorted(names)))}.</p>")
    if not both:
        parts.append("<p>No group is in both runs.</p>")
    return "".join(parts)


def _table(other: Totals, now: Totals) -> str:
    rows = [_row(label, getattr(other, name), getattr(now, name), is_time=False) for name, label in COUNTS]
    rows += [_row(label, getattr(other, name), getattr(now, name), is_time=True) for name, label in TIMES]
    heads = "".join(f'<th scope="col" class="n">{head}</th>' for head in ("other run", "this run", "change"))
    return (
        f'<div class="wide compared"><table><thead><tr><th scope="col">figure</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(label: str, other: float | None, now: float | None, *, is_time: bool) -> str:
    cells = [_text(other, is_time=is_time), _text(now, is_time=is_time), format_change(other, now)]
    return f"<tr><td>{label}</td>{''.join(_cells(cells))}</tr>"


def _cells(values: Iterable[str]) -> Iterable[str]:
    heads = ("other run", "this run", "change")
    return (f'<td class="n" data-head="{head}">{value}</td>' for head, value in zip(heads, values, strict=True))


def _text(value: float | None, *, is_time: bool) -> str:
    if value is None:
        return "-"
    return milliseconds(value) if is_time else f"{value:,.0f}"


def format_change(other: float | None, now: float | None) -> str:
    """Return the change in per cent of the other run, or a phrase if its value is zero or missing."""
    if other is None or now is None:
        return ""
    if other == now:
        return "the same"
    if not other:
        return "new"
    return f"{(now - other) / other:+.0%}"
