"""Makes the report of a trace in a folder: in this process if the trace is short, else with Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.errors import ConfigError
from model.extras import extras_command
from process.output import print_note

if TYPE_CHECKING:
    from pipeline.report.data import Report

AGAINST = "against"
"""The folder, inside a report's, of the run that it is compared with."""
SHORT_SPARK_JOB_BYTES = 30_000_000
"""About a hundred thousand events. Up to this size a job is faster without Java's second compiler (C2), as measured."""


def make_report(
    traces: list[Path],
    name_servers: str,
    out: Path,
    *,
    group: str | None = None,
    against: Sequence[Path] = (),
    window_s: float | None = None,
    master: str | None = None,
    driver_memory: str = "1g",
    missing: str = "",
) -> Report:
    """Write a report of `traces` to the folder `out`; progress goes to stderr. Without traces it reads SYS_TRACE.

    `missing` names the part of the topic that cannot be read. If `against` has the traces of another run, the page
    compares the two runs; the report of the other run is in the subfolder `against`.

    Raises:
        ConfigError: pyspark, Java or a trace is missing, a trace has no events, or the windows are too short.
    """
    if against:  # each run gets its own report; then the page is written again, with both
        make_one = partial(make_report, group=group, window_s=window_s, master=master, driver_memory=driver_memory)
        other_report = make_one(list(against), "", out / AGAINST)
        make_one(traces, name_servers, out, missing=missing)
        from pipeline.report.folder import write_page

        return write_page(out, other_report)
    for path in traces:
        if not path.exists():
            raise ConfigError(f"there is no trace {path}")
    started = time.perf_counter()

    def note(step: str) -> None:
        print_note(f"{time.perf_counter() - started:6.1f} s  {step}")

    try:
        from pipeline.report.folder import write_report_without_spark
        from pipeline.trace.alone import is_for_one_process

        if traces and master is None and is_for_one_process(traces):
            report = write_report_without_spark(traces, out, group=group, window_s=window_s, progress=note)
            note("done")
            return report
        from pipeline.report.job import write_report
        from pipeline.spark.session import SHORT_JOB, spark_session
        from pipeline.trace.source import read_files, read_topic
    except ImportError as error:
        raise ConfigError(
            f"a report of this size needs Spark ({error}): {extras_command('spark', 'spark-jdk')}"
        ) from error
    note("Spark starts")
    options = SHORT_JOB if is_short_spark_job(traces) else ""
    with spark_session("rlab report", master=master, driver_memory=driver_memory, java_options=options) as spark:
        read = read_files(spark, traces) if traces else read_topic(spark, name_servers)
        report = write_report(read, out, group=group, files=traces, missing=missing, window_s=window_s, progress=note)
    note("done")
    return report


def is_short_spark_job(traces: list[Path]) -> bool:
    """Whether a report of these files takes only seconds; False for a folder and for the topic."""
    if not traces or not all(path.is_file() for path in traces):
        return False
    return sum(path.stat().st_size for path in traces) <= SHORT_SPARK_JOB_BYTES


def page_path(out: Path) -> Path:
    """Path of the page of a report."""
    from pipeline.report.folder import PAGE

    return (out / PAGE).resolve()
