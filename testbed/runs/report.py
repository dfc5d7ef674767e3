"""The lines that `rlab sim` prints: the result of a run, the result of a sweep, and the command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from testbed.simulation.kernel.run import EPOCH_MS

if TYPE_CHECKING:
    from model.events import Event
    from testbed.simulation.engine.programme import Programme
    from testbed.simulation.engine.run import Outcome
    from testbed.simulation.engine.sweep import Case

_SHOWN = 5
"""The most findings of a run that are printed; further ones add little."""


def outcome_lines(outcome: Outcome, programme: Programme, repeat_command: str) -> list[str]:
    """A run: its verdict, its findings, its figures, and the command that repeats it."""
    name = programme.name or "the programme"
    elapsed = ", ".join(f"{each:.2f}" for each in outcome.converged_s) or "-"
    lines = [f"{'PASSED' if outcome.ok else 'FAILED'}  {name}, seed {outcome.seed}"]
    lines += [f"  found      {finding}" for finding in outcome.findings[:_SHOWN]]
    lines += [f"  shown by   {witness_line(event)}" for finding in outcome.findings[:1] for event in finding.witness]
    if len(outcome.findings) > _SHOWN:
        lines.append(f"             and {len(outcome.findings) - _SHOWN} more")
    lines += [
        f"  time       {outcome.took_s:,.1f} virtual seconds; converged {elapsed} s after the repair",
        f"  messages   {outcome.sent:,} sent, {outcome.failed_sends:,} failed, {outcome.deliveries:,} delivered, "
        f"{outcome.again:,} again, {outcome.dead_letters:,} dead",
        f"  steps      {counts(outcome.acts) or 'none'}",
        f"  events     {outcome.events:,}, SHA-256 {outcome.digest}",
        f"  again      {repeat_command}",
    ]
    return lines


def witness_line(event: Event) -> str:
    """An event that shows a finding, in a line: when, who, what, and of what."""
    queue = f"{event.topic}@{event.broker}:{event.queue_id}" if event.queue_id >= 0 else event.topic
    names = [event.group, queue, event.client if event.client != event.node else ""]
    numbers = [f"{name} {value}" for name, value in (("offset", event.offset), ("n", event.n)) if value >= 0]
    words = [word for word in (*names, *numbers, event.detail) if word]
    return f"{(event.t_ms - EPOCH_MS) / 1000:8.3f} s  {event.node} {event.kind} {' '.join(words)}"


def failed_line(outcome: Outcome, repeat_command: str) -> str:
    """A run of a sweep that failed, in a line."""
    return f"seed {outcome.seed} FAILED: {outcome.findings[0]}; again: {repeat_command}"


def counts(count_by_name: Mapping[str, int]) -> str:
    """Names with their counts, as text."""
    return ", ".join(f"{name} {n:,}" for name, n in count_by_name.items())


def repeat_command(case: Case, file: str | None) -> str:
    """The command that runs a case again."""
    words = ["rlab", "sim", *([file] if file else []), "--seed", str(case.seed)]
    words += ["--kind", case.kind] if case.kind and not file else []
    words += ["--sound"] if case.sound else []
    words += ["--wrong-clocks"] if case.wrong_clocks else []
    for quirk in case.quirks:
        words += ["--quirk", quirk]
    return shlex.join(words)
