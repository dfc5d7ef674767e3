"""Result of a demo: a table with a row per rebalance and a verdict, or the document of `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from model.counted import plural
from process.output import document
from testbed.demo.story import DemoResult
from testbed.simulation.checks.ownership import RebalanceStep

EXPIRY = "MEMBER_LEAVE expiry"


def step_table(steps: Sequence[RebalanceStep]) -> Table:
    """Draw a row per step."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("step", no_wrap=True)
    table.add_column("cause")
    table.add_column("trigger")
    for heading in ("members", "moved", "converged"):
        table.add_column(heading, justify="right", no_wrap=True)
    for step in steps:
        table.add_row(
            step.step,
            words(step.cause),
            step.trigger.replace("+", " "),
            str(step.members),
            str(step.queues_moved),
            Text("never", "bold red") if step.converged_ms is None else milliseconds(step.converged_ms),
        )
    return table


def words(cause: str) -> str:
    """A cause as text for people: `MEMBER_LEAVE expiry` becomes `member leave expiry`."""
    return cause.replace("_", " ").lower()


def step_line(step: RebalanceStep) -> str:
    """The result of a step in a line."""
    if step.converged_ms is None:
        return f"{step.step}: did not converge"
    return (
        f"{step.step}: converged in {milliseconds(step.converged_ms)}, {plural(step.queues_moved, 'queue')} moved, "
        f"{plural(step.members, 'member')}"
    )


def milliseconds(value: float) -> str:
    """A time as text for people: whole milliseconds, and one decimal below ten."""
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def verdict(result: DemoResult) -> Table:
    """The result of a demo in a few lines."""
    received = "every one received" if not result.lost else f"{result.lost:,} of them never received"
    lines = [f"{plural(result.sent, 'message')} acknowledged, {received}, {result.duplicates:,} received twice."]
    failed = [step.step for step in result.rebalances if step.converged_ms is None]
    if failed:
        lines.append(f"The group did not converge after: {', '.join(failed)}.")
    else:
        lines.append("The group converged after every step.")
    for step in result.rebalances:
        if step.cause == EXPIRY and step.noticed_ms is not None and step.converged_ms is not None:
            replaced_ms = step.converged_ms - step.noticed_ms
            lines.append(
                f"The session of the silent consumer expired after {milliseconds(step.noticed_ms)} "
                f"and its queues were reassigned {milliseconds(replaced_ms)} later."
            )
    lines.append(
        f"Queues with two owners: {milliseconds(result.double_owner_ms)}; "
        f"without one: {milliseconds(result.orphan_ms)}, summed over {plural(result.queues, 'queue')}."
    )
    lines += result.broken or ["The history keeps every rule of rlab check."]
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("PASSED", "bold green") if result.ok else Text("FAILED", "bold red"), "\n".join(lines))
    return table


def result_document(result: DemoResult) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        **document(result),
        "double_owner_ms": round(result.double_owner_ms, 1),
        "orphan_ms": round(result.orphan_ms, 1),
        "rebalances": [
            {
                "step": step.step,
                "cause": step.cause,
                "trigger": step.trigger,
                "members": step.members,
                "queues_moved": step.queues_moved,
                "converged_ms": None if step.converged_ms is None else round(step.converged_ms, 1),
            }
            for step in result.rebalances
        ],
    }
