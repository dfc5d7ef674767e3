"""Draws the result of a run of `rlab crash --copies` as a table: messages, then the steps of each kind. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.counted import plural
from testbed.crash.copies.kinds import COPIES_KINDS
from testbed.crash.copies.schedule import Act
from testbed.crash.report import Row, draw_table, message_rows, spread_text

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.crash.copies.run import ActFigures, CopiesResult
    from testbed.crash.spread import Spread

LABELS = {
    Act.KILLED: "replicas killed",
    Act.STOPPED: "replicas stopped",
    Act.PAUSED: "replicas paused",
    Act.HANDED_OVER: "handovers by an operator",
    Act.MASTER_STOPPED: "handovers by a stop",
    Act.MASTER_KILLED: "masters killed",
    Act.MASTER_PAUSED: "masters paused",
    Act.MASTER_LOST: "masters lost with their disk",
}


def copies_table(result: CopiesResult) -> Table:
    """Draw the result of a run."""
    rows = [
        ("copies", f"{result.copies}", f"everything was read back from {result.read_back} of them as the master"),
        *message_rows(result.verdict, result.duration_s),
        # A run in which it is 0 is not ok: the counter of moved queues would show no move in the steps either.
        (
            "moved by a join",
            f"{result.moved_by_joins:,}",
            "queues, when a member joined and left at first",
        ),
    ]
    for act, figures in result.acts.items():
        rows += _rows(LABELS[Act(act)], figures)
    return draw_table(result.verdict, rows, COPIES_KINDS, ok=result.ok)


def _rows(label: str, figures: ActFigures) -> list[Row]:
    moved, twice = plural(figures.moved, "queue"), plural(figures.twice, "message")
    effects = f"{moved} moved, {twice} twice, {plural(figures.failed, 'send')} failed"
    return [
        ("", "", ""),
        (label, f"{figures.n:,}", effects),
        ("  longest time without an acknowledged send", f"{figures.gap.max_s:.3f} s", _times(figures.gap)),
        ("  longest send", f"{figures.held.max_s:.3f} s", _times(figures.held)),
    ]


def _times(spread: Spread) -> str:
    return f"p99 {spread.p99_s:.3f} s, {spread_text(spread)}"
