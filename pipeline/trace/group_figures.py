"""Computes the tables of groups by running `rows.py` in Spark, group by group.

A task has some groups and reads their runs (`events_table.py`) directly, so there is no shuffle. For each group it
holds only the open entries and the overlapping runs, so a trace may be larger than memory. Events without a group,
which may be causes, are read for every group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.arrow_arrays import table
from pipeline.python_worker import no_search_for_cycles
from pipeline.trace.events_table import EventRun, GroupReader
from pipeline.trace.parts import TablePart, begin_table, end_table
from pipeline.trace.rows import SCHEMAS, TableRow, compute_rows

ROWS_AT_ONCE = 50_000
"""Number of rows of a table that a task writes together."""
MOST_TASKS = 200
TASK_EVENTS = 100_000
"""Minimum number of events of a task, unless there are no more groups: a task costs as much as a few thousand."""


def write_figures(
    spark: SparkSession, runs: Sequence[EventRun], directory: Path, start_ms: float, end_ms: float
) -> None:
    """Write the tables of a trace from `start_ms` to `end_ms`; entries that are open at the end are ended then.

    `runs` are the runs of the table `events` in the same directory.
    """
    for name in SCHEMAS:
        begin_table(directory / name)
    tasks = [
        ([run for run in runs if not groups.isdisjoint(run.groups) or "" in run.groups], sorted(groups))
        for groups in plan_tasks(runs)
    ]
    compute = partial(_compute, tasks=tasks, directory=directory, start_ms=start_ms, end_ms=end_ms)
    written = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(compute, "name string, file string").collect()
    for name in SCHEMAS:
        end_table(directory / name, [row["file"] for row in written if row["name"] == name])


def plan_tasks(runs: Sequence[EventRun]) -> list[set[str]]:
    """Return the groups of each task, the largest task first; the group "" if there is no other."""
    events: Counter[str] = Counter()
    for run in runs:
        events.update(run.groups)
    names = sorted(name for name, n in events.items() if name and n)
    enough = max(TASK_EVENTS, -(-events.total() // MOST_TASKS))
    tasks: list[set[str]] = []
    n = enough
    for name in names or [""]:
        if n >= enough or events[name] >= enough:
            tasks.append(set())
            n = 0
        tasks[-1].add(name)
        n += events[name]
    return sorted(tasks, key=lambda groups: -sum(events[name] for name in groups))


def _compute(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[tuple[Sequence[EventRun], Sequence[str]]],
    directory: Path,
    start_ms: float,
    end_ms: float,
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            runs, groups = tasks[number]
            with no_search_for_cycles():
                reader = GroupReader(directory / "events", runs, groups)
                files = _write(compute_rows(reader.groups(), start_ms, end_ms), directory)
            yield from table(files, pa.schema([("name", pa.string()), ("file", pa.string())])).to_batches()


def _write(table_rows: Iterable[TableRow], directory: Path) -> list[tuple[str, str]]:
    """Write the files of a task; returns the name of each with the name of its table."""
    parts = {name: TablePart(directory / name, schema) for name, schema in SCHEMAS.items()}
    held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}
    for name, row in table_rows:
        rows = held[name]
        rows.append(row)
        if len(rows) >= ROWS_AT_ONCE:
            parts[name].write(table(rows, SCHEMAS[name]))
            rows.clear()
    for name, part in parts.items():
        part.write(table(held[name], SCHEMAS[name]))
        part.close()
    return [(name, part.name) for name, part in parts.items()]
