"""The folder of a report: its Parquet tables, and the page from them. Without Spark.

write_report_without_spark([Path("trace.jsonl")], Path("report"))  # report/index.html, report/tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from model.errors import ConfigError
from pipeline.python_worker import no_search_for_cycles
from pipeline.report.data import CLOCKS, MISSING, Report, read_report
from pipeline.report.page import page
from pipeline.report.windows import write_windows
from pipeline.trace.alone import events_of, in_right_times, read_trace, write_arrow_tables
from pipeline.trace.files import other_lines
from traces.check.words import clock_text
from traces.figures.clocks.clocks import ClockFault

PAGE = "index.html"
TABLES = "tables"


def make_folder(directory: Path) -> None:
    """Create the folder.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"a report cannot be written to {directory}: {error.strerror}") from error


def write_page(directory: Path, against: Report | None = None) -> Report:
    """Write the page from the tables in the folder, optionally compared with another run; returns its contents."""
    report = read_report(directory / TABLES)
    (directory / PAGE).write_text(page(report, against), encoding="utf-8")
    return report


def write_notes(directory: Path, missing: str, clocks: Sequence[ClockFault]) -> None:
    """Write beside the tables which part of the trace they lack, and which clocks were wrong; remove older notes."""
    for name, text in ((MISSING, missing), (CLOCKS, "\n".join(map(clock_text, clocks)))):
        note = directory / TABLES / name
        if text:
            note.write_text(text, encoding="utf-8")
        else:
            note.unlink(missing_ok=True)


def write_report_without_spark(
    traces: Sequence[Path],
    directory: Path,
    *,
    group: str | None = None,
    window_s: float | None = None,
    progress: Callable[[str], object] = lambda step: None,
) -> Report:
    """Write the tables and the page of a short trace in this process, with the same figures as `job.write_report`.

    Raises:
        ConfigError: the trace has no event, the folder cannot be written, or the windows are too short.
    """
    make_folder(directory)
    with no_search_for_cycles():
        progress("events")
        trace, others = read_trace(traces)
        recorded = events_of(trace)
        events, clocks = in_right_times(recorded)
        write_arrow_tables(events, directory / TABLES, group=group, trace=trace if events is recorded else None)
        write_windows(directory / TABLES, window_s)
        write_notes(directory, "", clocks)
        if others:
            progress(other_lines(others))
        progress("page")
        return write_page(directory)
