"""Table with the result of a crash run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.crash.audit import KINDS

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.crash.run import CrashResult, Spread


def verdict_table(result: CrashResult) -> Table:
    """Draw the result of a run."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row(Text("PASSED", "bold green") if result.ok else Text("FAILED", "bold red"), "", "")
    verdict = result.verdict
    for label, value, remark in (
        ("brokers killed", f"{result.kills:,}", _moments(result)),
        ("messages acknowledged", f"{verdict.acknowledged:,}", f"in {result.duration_s:,.1f} s"),
        ("sends failed", f"{verdict.given_up:,}", f"their broker was down; {verdict.in_doubt:,} may be stored"),
        ("stored", f"{verdict.stored:,}", "each counted once"),
        ("stored unacknowledged", f"{verdict.stored_unacknowledged:,}", "the answer was lost, and the send failed"),
        ("stored twice", f"{verdict.stored_twice:,}", "the answer was lost, and the send was retried"),
        ("consumed", f"{verdict.consumed:,}", "each counted once"),
        ("consumed twice", f"{verdict.consumed_twice:,}", "stored twice, or not committed before a handover"),
        ("restarts", f"{result.starts.n:,}", _spread(result.starts)),
        ("recoveries", "", _spread(result.recoveries)),
        ("largest recovery scan", f"{result.scanned_bytes_max:,} B", f"{result.torn_tails:,} torn tails cut off"),
    ):
        table.add_row(label, value, remark)
    table.add_row("", "", "")
    for kind, count in verdict.findings.items():
        table.add_row(kind, Text(f"{count:,}", "bold red" if count else ""), KINDS[kind])
    if result.power_cuts is not None or result.damage is not None:
        table.add_row("", "", "")
    if result.power_cuts is not None:
        word = Text("kept", "") if result.power_cuts.ok else Text("broken", "bold red")
        table.add_row("guarantees of --flush sync", word, result.power_cuts.summary)
    if result.damage is not None:
        word = Text("reported", "") if result.damage.ok else Text("not reported", "bold red")
        table.add_row("damage to files", word, result.damage.summary)
    return table


def _moments(result: CrashResult) -> str:
    return ", ".join(f"{count:,} {moment}" for moment, count in result.moments.items())


def _spread(spread: Spread) -> str:
    if not spread.n:
        return ""
    return f"{spread.min_s:.3f} to {spread.max_s:.3f} s, median {spread.median_s:.3f} s"
