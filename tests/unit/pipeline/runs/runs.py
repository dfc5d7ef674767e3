"""Runs that are made up, and traces of simulated ones: what the tests of several runs read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.report.data import read_report
from pipeline.report.windows import time_of, windows_of
from pipeline.runs.figures import THIS, ReportedRun
from testbed.runs.runs import run_traced
from testbed.simulation.engine.sweep import Case
from tests.unit.pipeline.report.report_tables import write

PROGRAMME = """
lasts_s = 8.0
[load]
messages = 20
[[group]]
name = "billing"
members = 3
[[step]]
at_s = 3.0
do = "crash"
who = "billing-1"
"""


def simulated_trace(path: Path, *, seed: int) -> Path:
    """Write the events of a run in which one of three members is killed."""
    path.parent.mkdir(exist_ok=True)
    outcome = run_traced(Case(seed=seed, text=PROGRAMME), path)
    assert outcome.ok
    return path


def made_runs(folder: Path, totals: Sequence[dict[str, Any]], side: str = THIS) -> list[ReportedRun]:
    """A run for each of these totals, which are otherwise those of the same made-up trace."""
    tables = write(folder / side)
    report = read_report(tables)
    windows = windows_of(tables, *time_of(tables), 5_000).to_pylist()
    [group] = report.groups
    return [
        ReportedRun(
            side=side,
            name=f"seed-{number}",
            report=replace(report, groups=[replace(group, totals=replace(group.totals, **each))]),
            windows=windows.copy(),
        )
        for number, each in enumerate(totals, 1)
    ]
