"""The folder of several runs: a report of each run, and the tables and the page of all of them. Without Spark.

write_runs({"seed-1": [Path("seed-1.jsonl")], "seed-2": [Path("seed-2.jsonl")]}, Path("report"))
# a page, the folder `tables`, which has `summary` and others, and the folder `runs` with the report of each run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from model.errors import ConfigError
from pipeline import arrow_arrays
from pipeline.report.data import Report
from pipeline.report.folder import PAGE, TABLES, make_folder, write_report_without_spark
from pipeline.report.windows import time_of, window_of, windows_of
from pipeline.runs.figures import OTHER, SCHEMAS, THIS, ReportedRun, tables_of
from pipeline.runs.page import RUN_FOLDERS, page
from pipeline.trace.parts import write_whole

MOST_RUNS = 1_000
"""Maximum number of runs: their figures are held in memory, and the page has a row for each."""


def names_of(traces: Sequence[Path]) -> dict[str, list[Path]]:
    """Return a name for each trace of a run: the name of the file, preceded by the name of its folder if two are equal.

    Raises:
        ConfigError: a trace is there twice, or there are more than `MOST_RUNS`.
    """
    if len(traces) > MOST_RUNS:
        raise ConfigError(f"{len(traces):,} runs are more than one report takes: at most {MOST_RUNS:,}")
    whole = [path.resolve() for path in traces]
    for path in whole:
        if whole.count(path) > 1:
            raise ConfigError(f"{path} is there twice: it would count as two runs")
    for take in (_of_file, _of_folder):
        names = [take(path) for path in whole]
        if len(set(names)) == len(names):
            break
    else:
        names = [f"{number}-{name}" for number, name in enumerate(names, 1)]
    return {name: [path] for name, path in zip(names, traces, strict=True)}


def _of_file(path: Path) -> str:
    return path.stem


def _of_folder(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def write_runs(
    runs: Mapping[str, Sequence[Path]],
    directory: Path,
    *,
    against: Mapping[str, Sequence[Path]] | None = None,
    window_s: float | None = None,
    group: str | None = None,
    write_report: Callable[[Sequence[Path], Path], Report] | None = None,
    progress: Callable[[str], object] = lambda step: None,
) -> list[ReportedRun]:
    """Write a report of each run, then the tables and the page of all; returns them, the runs of `against` last.

    `runs` has the traces of each run by its name, which becomes the name of a folder; `against` has runs to compare
    them with. `window_s` is the length of the windows of the tables, and the same for all runs; by default the longest
    run has about 30. With a `group`, only that group counts. `write_report` writes the report of a run, by default
    `write_report_without_spark`. `progress` is called with a text before each run.

    Raises:
        ConfigError: as `write_report_without_spark` and `window_of`.
    """
    make_folder(directory)

    def of_run(traces: Sequence[Path], folder: Path) -> Report:
        return write_report_without_spark(traces, folder, group=group)

    write = write_report or of_run
    reports: list[tuple[str, str, Path, Report]] = []
    for side, run_files in ((THIS, runs), (OTHER, against or {})):
        folder = directory / RUN_FOLDERS[side]
        for name, traces in run_files.items():
            progress(f"run {name}")
            reports.append((side, name, folder / name, write(traces, folder / name)))
    window_ms = window_of(max(report.span_ms for *_, report in reports), window_s)
    reported = []
    for side, name, folder, report in reports:
        windows = windows_of(folder / TABLES, *time_of(folder / TABLES), window_ms)
        reported.append(ReportedRun(side=side, name=name, report=report, windows=windows.to_pylist()))
    tables = tables_of(reported)
    for table, rows in tables.items():
        schema = SCHEMAS[table]
        values = [[row[column] for column in schema.names] for row in rows]
        write_whole(directory / TABLES / table, arrow_arrays.table(values, schema))
    (directory / PAGE).write_text(page(reported, tables, window_ms), encoding="utf-8")
    return reported
