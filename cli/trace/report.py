"""`rlab report`: the costs of the rebalances in a trace, as a page and as tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster
from cli.complete import groups
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from cli.trace.make_report import make_report, page_path
from model.counted import plural
from model.missing_trace import NOTHING_MISSING
from process.output import print_json, print_line, print_note
from process.runtime import exit_with_error

if TYPE_CHECKING:
    from pipeline.report.data import Report

SHOWN_QUEUES = 10
"""Lines about redelivered messages of a group that pops: queues and members."""


_Traces = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[TRACE]...", help="JSON Lines files or Parquet folders; by default the topic SYS_TRACE."),
]
_Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page and the tables.")]
_Group = Annotated[str | None, typer.Option(help="Report only this consumer group.", autocompletion=groups)]
_Against = Annotated[
    list[Path] | None,
    typer.Option(metavar="TRACE", help="Compare with the trace of another run; may be repeated for its files."),
]
_Runs = Annotated[
    bool,
    typer.Option(
        "--runs",
        help="Each trace, or each file in a folder of JSON Lines, is a run: report means and their intervals.",
    ),
]
_Window = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=1,
        help="Length of the windows of the table `windows`.",
        show_default="about a thirtieth of the trace",
    ),
]
_Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark master; by default all cores of this machine. With spark://host:7077, --out and the traces "
        "must be in folders that this machine shares with all workers.",
    ),
]
_DriverMemory = Annotated[str, typer.Option(metavar="SIZE", help="Memory of Spark's driver, for instance 3g.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    trace: _Traces = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    out: _Out = Path("report"),
    group: _Group = None,
    against: _Against = None,
    runs: _Runs = False,
    window: _Window = None,
    master: _Master = None,
    driver_memory: _DriverMemory = "1g",
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
        report_made = make_report(
            *(trace or [], namesrv, out),
            group=group,
            against=against or (),
            window_s=window,
            master=master,
            driver_memory=driver_memory,
            missing=str(missing),
        )
    if json:
        print_json({"page": str(page_path(out)), **report_document(report_made)})
    else:
        print_report(report_made, out)


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
        "groups": [{**asdict(each_group.totals), "missed": each_group.missed} for each_group in report.groups],
        "ownerless": [asdict(each_group) for each_group in report.ownerless],
        "transactions": report.transactions,
        "faults": [asdict(each) for each in report.faults],
    }


def print_report(report: Report, out: Path) -> None:
    """Print a summary of each group, and the path of the page."""
    from pipeline.report.data import queue_name
    from pipeline.report.words import (
        describe_missed,
        member_name,
        ownerless,
        sentence_of_rebalance,
        summary,
        transactions,
    )
    from traces.figures.faults import describe_fault

    for group_report in report.groups:
        worst = sentence_of_rebalance(group_report.ranking[0]) if group_report.ranking else None
        totals, missed = group_report.totals, describe_missed(group_report.missed)
        print_line(f"group {totals.group}: {summary(totals, worst)} {missed}".rstrip())
    for each in report.ownerless:
        print_line(f"group {each.group}: {ownerless(each)}")
        for row in each.queues[:SHOWN_QUEUES]:
            n = plural(row["redelivered"], "message")
            print_line(f"  {queue_name(row)}: {n} redelivered, to {member_name(row['client'])}")
        if len(each.queues) > SHOWN_QUEUES:
            print_line(f"  and {len(each.queues) - SHOWN_QUEUES:,} more, which the page has")
    for row in report.transactions:
        print_line(f"producer group {row['group']}: {transactions(row)}")
    for fault in report.faults:
        print_line(f"injected fault: {describe_fault(fault, report.started_ms)}")
    if report.damaged:
        damaged_text = plural(report.damaged, "stored message")
        print_line(f"{damaged_text} can no longer be read: files of brokers are damaged or missing")
    if report.missing:
        print_line(f"incomplete: {report.missing}")
    for clock in report.clocks:
        print_line(clock)
    if not report.groups and not report.ownerless:
        print_line("no member of a group owned a queue in this trace")
    print_line(f"report: {page_path(out)}")
