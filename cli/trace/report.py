"""`rlab report`: the costs of the rebalances in a trace, as a page and as tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster
from cli.complete import groups
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.counted import counted
from model.errors import ConfigError
from model.extras import adding
from model.missing_trace import NOTHING_MISSING
from process.output import print_json, print_line, print_note
from process.runtime import exit_with_error

if TYPE_CHECKING:
    from pipeline.report.data import Report

AGAINST = "against"
"""The folder, inside a report's, of the run that it is compared with."""
SHOWN_QUEUES = 10
"""Lines about redelivered messages of a group that pops: queues and members."""
SHORT_TRACE_BYTES = 30_000_000
"""A hundred thousand events: measured faster without Java's second compiler; larger traces were not measured."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    trace: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TRACE]...", help="JSON Lines files or Parquet folders; by default the topic SYS_TRACE."
        ),
    ] = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page and the tables.")] = Path("report"),
    group: Annotated[str | None, typer.Option(help="Report only this consumer group.", autocompletion=groups)] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="TRACE", help="Compare with the trace of another run; may be repeated for its files."),
    ] = None,
    runs: Annotated[
        bool,
        typer.Option(
            "--runs",
            help="Each trace, or each file in a folder of JSON Lines, is a run: report means and their intervals.",
        ),
    ] = False,
    window: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1,
            help="Length of the windows of the table `windows`.",
            show_default="about a thirtieth of the trace",
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Spark master; by default all cores of this machine. With spark://host:7077, --out and the traces "
            "must be in folders that this machine shares with all workers.",
        ),
    ] = None,
    driver_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory of Spark's driver, for instance 3g.")
    ] = "1g",
    json: Json = False,
    config: Config = None,
) -> None:
    """Report the cost of the rebalances in a trace.

    Shows owners over time, pauses of queues, and duplicates. Reads traces written by `rlab broker --trace` and `rlab
    demo --trace`, or the topic SYS_TRACE, to which all brokers and clients send their events. Needs the extra `spark`,
    and Java only for more than 1,000,000 events or the topic.

    Example: rlab report --namesrv 127.0.0.1:9876 --out report

    Example: rlab report tuned.jsonl --against before.jsonl

    Example: rlab report traces --runs
    """
    if runs:
        from cli.trace.runs import report_runs

        with exit_with_error():
            report_runs(
                trace or [],
                *(against or [], out),
                group=group,
                window_s=window,
                master=master,
                driver_memory=driver_memory,
                as_json=json,
            )
        return
    from cli.trace.events import missing_now

    # A cluster that cannot be reached is reported before Spark starts.
    missing = ask_cluster(namesrv, missing_now) if not trace else NOTHING_MISSING
    if missing.limit:
        print_note(f"note: {missing.limit}")
    with exit_with_error():
        made = make_report(
            *(trace or [], namesrv, out),
            group=group,
            against=against or (),
            window_s=window,
            master=master,
            driver_memory=driver_memory,
            missing=str(missing),
        )
    if json:
        print_json({"page": str(page_of(out)), **report_document(made)})
    else:
        print_report(made, out)


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
    """Make a report in the folder `out`, with progress on stderr; without `traces` the topic SYS_TRACE is read.

    `missing` names the part of the topic that cannot be read.
    With traces of another run `against` it, the page compares both; the report of that run is in a folder of its own.

    Raises:
        ConfigError: pyspark, Java or a trace is missing, a trace has no events, or the windows are too short.
    """
    if against:
        make = partial(make_report, group=group, window_s=window_s, master=master, driver_memory=driver_memory)
        before = make(list(against), "", out / AGAINST)
        make(traces, name_servers, out, missing=missing)
        from pipeline.report.folder import write_page

        return write_page(out, before)
    for path in traces:
        if not path.exists():
            raise ConfigError(f"there is no trace {path}")
    started = time.perf_counter()

    def note(step: str) -> None:
        print_note(f"{time.perf_counter() - started:6.1f} s  {step}")

    try:
        from pipeline.report.folder import write_short_report
        from pipeline.trace.alone import is_for_one_process

        if traces and master is None and is_for_one_process(traces):
            made = write_short_report(traces, out, group=group, window_s=window_s, progress=note)
            note("done")
            return made
        from pipeline.report.job import write_report
        from pipeline.spark.session import SHORT_JOB, spark_session
        from pipeline.trace.source import read_files, read_topic
    except ImportError as error:
        raise ConfigError(f"a report needs more ({error}): {adding('spark', 'spark-jdk')}") from error
    note("Spark starts")
    options = SHORT_JOB if is_short(traces) else ""
    with spark_session("rlab report", master=master, driver_memory=driver_memory, java_options=options) as spark:
        read = read_files(spark, traces) if traces else read_topic(spark, name_servers)
        made = write_report(*(read, out), group=group, files=traces, missing=missing, window_s=window_s, progress=note)
    note("done")
    return made


def is_short(traces: list[Path]) -> bool:
    """Whether a report of these files takes only seconds; False for a folder or a topic, whose size is unknown."""
    if not traces or not all(path.is_file() for path in traces):
        return False
    return sum(path.stat().st_size for path in traces) <= SHORT_TRACE_BYTES


def page_of(out: Path) -> Path:
    """Path of the page of a report."""
    from pipeline.report.folder import PAGE

    return (out / PAGE).resolve()


def report_document(report: Report) -> dict[str, object]:
    """The document of `--json`: the counts, without the rows that the page draws."""
    return {
        "events": report.events,
        "nodes": report.nodes,
        "lost_events": report.lost,
        "span_ms": round(report.span_ms, 1),
        "damaged_messages": report.damaged,
        "missing": report.missing,
        "clocks": report.clocks,
        "groups": [{**asdict(one.totals), "missed": one.missed} for one in report.groups],
        "ownerless": [asdict(one) for one in report.ownerless],
        "transactions": report.transactions,
        "faults": [asdict(each) for each in report.faults],
    }


def print_report(report: Report, out: Path) -> None:
    """Print a summary of each group, and the path of the page."""
    from pipeline.report.data import queue_name
    from pipeline.report.words import member_name, missed, ownerless, sentence_of_rebalance, summary, transactions
    from traces.figures.faults import in_words

    for one in report.groups:
        worst = sentence_of_rebalance(one.ranking[0]) if one.ranking else None
        print_line(f"group {one.totals.group}: {summary(one.totals, worst)} {missed(one.missed)}".rstrip())
    for each in report.ownerless:
        print_line(f"group {each.group}: {ownerless(each)}")
        for row in each.queues[:SHOWN_QUEUES]:
            n = counted(row["redelivered"], "message")
            print_line(f"  {queue_name(row)}: {n} redelivered, to {member_name(row['client'])}")
        if len(each.queues) > SHOWN_QUEUES:
            print_line(f"  and {len(each.queues) - SHOWN_QUEUES:,} more, which the page has")
    for row in report.transactions:
        print_line(f"producer group {row['group']}: {transactions(row)}")
    for fault in report.faults:
        print_line(f"injected fault: {in_words(fault, report.started_ms)}")
    if report.damaged:
        lost = counted(report.damaged, "stored message")
        print_line(f"{lost} cannot be read any more: files of brokers are damaged or missing")
    if report.missing:
        print_line(f"incomplete: {report.missing}")
    for clock in report.clocks:
        print_line(clock)
    if not report.groups and not report.ownerless:
        print_line("no member of a group owned a queue in this trace")
    print_line(f"report: {page_of(out)}")
