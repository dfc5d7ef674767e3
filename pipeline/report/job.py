"""`rlab report`: turns a trace into a folder with Parquet tables and an HTML page.

with spark_session("report") as spark:
write_report(read_files(spark, [Path("trace.jsonl")]), Path("report"))  # report/index.html, report/tables
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from model.errors import ConfigError
from pipeline.report.data import Report, read_report
from pipeline.report.page import page
from pipeline.trace.source import report_non_events
from pipeline.trace.tables import write_tables

PAGE = "index.html"
TABLES = "tables"


def write_report(
    trace: DataFrame,
    directory: Path,
    *,
    group: str | None = None,
    progress: Callable[[str], object] = lambda step: None,
) -> Report:
    """Write the tables of a trace and the page into a folder, replacing an older report; return the page's contents.

    A reader in `pipeline/trace/source.py` makes the `trace`; with a `group`, only that group counts. `progress` gets
    a text before each step.

    Raises:
        ConfigError: there is no event in the trace, or the folder cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"a report cannot be written to {directory}: {error.strerror}") from error
    write_tables(trace, directory / TABLES, group=group, progress=lambda table: progress(f"table {table}"))
    report_non_events(trace, progress)
    progress("page")
    report = read_report(directory / TABLES)
    (directory / PAGE).write_text(page(report), encoding="utf-8")
    return report
