"""`rlab report --runs`: several runs in one report, with the means of their figures as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.trace.make_report import make_report, page_path
from model.errors import ConfigError
from model.extras import extras_command
from process.output import print_json, print_line, print_note, print_table

if TYPE_CHECKING:
    from pipeline.report.data import Report


def report_runs(
    traces: Sequence[Path],
    against: Sequence[Path],
    out: Path,
    *,
    group: str | None,
    window_s: float | None,
    master: str | None,
    driver_memory: str,
    as_json: bool,
) -> None:
    """Make the report in the folder `out`, and print it; each of the traces is a run, and so is each of `against`.

    A folder with files of JSON Lines, as of `rlab sim --seeds`, has a run in each of these files.

    Raises:
        ConfigError: no trace is given, one is given twice, or as `make_report`.
    """
    if not traces:
        raise ConfigError("--runs needs the trace of each run: rlab report traces --runs")
    traces, against = list(_each(traces)), list(_each(against))
    try:
        from pipeline.runs.figures import groups_of, tables_of
        from pipeline.runs.folder import names_of, write_runs
        from pipeline.runs.words import figure_rows, heads_of
    except ImportError as error:
        raise ConfigError(f"a report needs more ({error}): {extras_command('spark')}") from error

    def write(paths: Sequence[Path], folder: Path) -> Report:
        return make_report(list(paths), "", folder, group=group, master=master, driver_memory=driver_memory)

    runs = write_runs(
        *(names_of(traces), out),
        against=names_of(against),
        window_s=window_s,
        group=group,
        write_report=write,
        progress=print_note,
    )
    if as_json:
        tables = tables_of(runs)
        print_json({"page": str(page_path(out)), "runs": tables["runs"], "summary": tables["summary"]})
        return
    first, *others = heads_of(runs)
    for each in groups_of(runs):
        print_table([first, *(f">{head}" for head in others)], figure_rows(runs, each), title=f"group {each}")
    if not groups_of(runs):
        print_line("no member of a group owned a queue in these runs")
    print_line(f"report: {page_path(out)}")


def _each(traces: Sequence[Path]) -> Iterator[Path]:
    """Yield the trace of each run."""
    for path in traces:
        if not path.exists():
            raise ConfigError(f"there is no trace {path}")
        yield from sorted(path.glob("*.jsonl")) or [path]
