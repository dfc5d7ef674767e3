"""`rlab report`: turns a trace into a folder with Parquet tables and an HTML page.

with spark_session("report") as spark:
write_report(read_files(spark, [Path("trace.jsonl")]), Path("report"))  # report/index.html, report/tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from pipeline.report.data import Report
from pipeline.report.folder import TABLES, make_folder, note_missing, other_lines, write_page
from pipeline.trace.tables import write_tables


def write_report(
    trace: DataFrame,
    directory: Path,
    *,
    group: str | None = None,
    files: Sequence[Path] = (),
    missing: str = "",
    progress: Callable[[str], object] = lambda step: None,
) -> Report:
    """Write the tables of a trace and the page into a folder, replacing an older report; return the page's contents.

    A reader in `pipeline/trace/source.py` makes the `trace`; if it is that of `files`, say so, and tasks read them,
    three times as fast. With a `group`, only that group counts. The page shows which part of the trace is `missing`.
    `progress` gets a text before each step.

    Raises:
        ConfigError: there is no event in the trace, or the folder cannot be written.
    """
    make_folder(directory)
    others = write_tables(
        trace, directory / TABLES, group=group, files=files, progress=lambda table: progress(f"table {table}")
    )
    note_missing(directory, missing)
    if others:
        progress(other_lines(others))
    progress("page")
    return write_page(directory)
