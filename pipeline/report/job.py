"""`rlab report`: converts a trace to a folder with Parquet tables and an HTML page.

with spark_session("report") as spark:
    write_report(read_files(spark, [Path("trace.jsonl")]), Path("report"))  # report/index.html, report/tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from pipeline.report.data import Report
from pipeline.report.folder import TABLES, make_folder, write_notes, write_page
from pipeline.report.windows import write_windows
from pipeline.trace.files import other_lines
from pipeline.trace.tables import write_tables


def write_report(
    trace: DataFrame,
    directory: Path,
    *,
    group: str | None = None,
    files: Sequence[Path] = (),
    missing: str = "",
    window_s: float | None = None,
    progress: Callable[[str], object] = lambda step: None,
) -> Report:
    """Write the tables of a trace and the page to a folder, replacing an older report; returns the page's contents.

    A reader in `pipeline/trace/source.py` makes the `trace`. If it was made from files, pass them as `files`: then
    tasks read them directly, which is three times as fast. With a `group`, only that group counts. The page shows
    `missing`, the part of the trace that could not be read. `window_s` is the length of the windows of the table
    `windows`; by default there are about 30. `progress` is called with a text before each step.

    Raises:
        ConfigError: the trace has no event, the folder cannot be written, or the windows are too short.
    """
    make_folder(directory)
    others, clocks = write_tables(
        trace,
        directory / TABLES,
        group=group,
        files=files,
        correct=True,
        progress=lambda table: progress(f"table {table}"),
    )
    write_windows(directory / TABLES, window_s)
    write_notes(directory, missing, clocks)
    if others:
        progress(other_lines(others))
    progress("page")
    return write_page(directory)
