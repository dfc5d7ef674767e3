"""Tables with the results of crash runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from testbed.crash.audit import KINDS

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.crash.audit import CrashVerdict
    from testbed.crash.run import CrashResult
    from testbed.crash.spread import Spread

Row = tuple[str, str, str]
"""A label, a value, and a remark."""


def verdict_table(result: CrashResult) -> Table:
    """Draw the result of a run."""
    from rich.text import Text

    rows = [
        ("brokers killed", f"{result.kills:,}", _moments(result)),
        *message_rows(result.verdict, result.duration_s),
        ("restarts", f"{result.starts.n:,}", spread_text(result.starts)),
        ("recoveries", "", spread_text(result.recoveries)),
        ("largest recovery scan", f"{result.scanned_bytes_max:,} B", f"{result.torn_tails:,} torn tails cut off"),
    ]
    table = draw_table(result.verdict, rows, KINDS, ok=result.ok)
    if result.power_cuts is not None or result.damage is not None:
        table.add_row("", "", "")
    if result.power_cuts is not None:
        word = Text("kept", "") if result.power_cuts.ok else Text("broken", "bold red")
        table.add_row("guarantees of --flush sync", word, result.power_cuts.summary)
    if result.damage is not None:
        word = Text("reported", "") if result.damage.ok else Text("not reported", "bold red")
        table.add_row("damage to files", word, result.damage.summary)
    return table


def message_rows(verdict: CrashVerdict, duration_s: float) -> list[Row]:
    """The rows with the counts of messages."""
    return [
        ("messages acknowledged", f"{verdict.acknowledged:,}", f"in {duration_s:,.1f} s"),
        ("sends failed", f"{verdict.given_up:,}", f"their broker was down; {verdict.in_doubt:,} may be stored"),
        ("stored", f"{verdict.stored:,}", "each counted once"),
        ("stored unacknowledged", f"{verdict.stored_unacknowledged:,}", "the answer was lost, and the send failed"),
        ("stored twice", f"{verdict.stored_twice:,}", "the answer was lost, and the send was retried"),
        ("consumed", f"{verdict.consumed:,}", "each counted once"),
        ("consumed twice", f"{verdict.consumed_twice:,}", "stored twice, or not committed before a handover"),
    ]


def draw_table(verdict: CrashVerdict, rows: Iterable[Row], kinds: Mapping[str, str], *, ok: bool) -> Table:
    """Draw the outcome of a run, its rows, and the number of findings of each kind."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row(Text("PASSED", "bold green") if ok else Text("FAILED", "bold red"), "", "")
    for row in rows:
        table.add_row(*row)
    table.add_row("", "", "")
    for kind, count in verdict.findings.items():
        table.add_row(kind, Text(f"{count:,}", "bold red" if count else ""), kinds[kind])
    return table


def _moments(result: CrashResult) -> str:
    return ", ".join(f"{count:,} {moment}" for moment, count in result.moments.items())


def spread_text(spread: Spread) -> str:
    """Durations as text; empty without any."""
    if not spread.n:
        return ""
    return f"{spread.min_s:.3f} to {spread.max_s:.3f} s, median {spread.median_s:.3f} s"
