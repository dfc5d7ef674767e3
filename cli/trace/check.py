"""`rlab check`: checks a trace against the promises of the project, and shows the evidence of each violation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.complete import groups
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.errors import ConfigError
from process.output import document, print_json, print_line, print_note, print_table
from process.runtime import FAILED, UNKNOWN, exit_with_error, run

if TYPE_CHECKING:
    from traces.check.check import HistoryCheck
    from traces.check.limits import HistoryLimits, OrderScope
    from traces.check.verdict import Verdict


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


Traces = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[TRACE]...", help="Files of JSON Lines, - for standard input; none: SYS_TRACE of the cluster."
    ),
]


def check(
    trace: Traces = None,
    group: Annotated[
        str | None, typer.Option(help="Judge only this group.", show_default=False, autocompletion=groups)
    ] = None,
    double_owner: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long a queue may have two owners.")
    ] = 0.1,
    orphan: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long it may have none.")] = 30.0,
    order: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP=queue|key", help="What a group keeps in order; a ledger shows whether it does."),
    ] = None,
    all_consumed: Annotated[
        bool, typer.Option("--all-consumed", help="The groups had consumed everything at the end.", show_default=False)
    ] = False,
    complete: Annotated[
        bool, typer.Option("--complete", help="No event is missing, also of nodes that died.", show_default=False)
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with pictures.", show_default=False)
    ] = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Judge a trace: was it as it should be?

    Looks for two owners of a queue, queues without an owner, old member lists, moves without a cause, queues that flap,
    passes for nothing, offsets that go back or leave messages out, and, if the trace has a ledger of single messages,
    for lost, unsent and overtaken ones. Exit code 0 means yes, 1 no, 3 unknown: too much is missing to say.

    Example: rlab check trace.jsonl --html verdict.html

    Example: rlab check --namesrv 127.0.0.1:9876 --group billing
    """
    from traces.check.check import HistoryCheck
    from traces.check.limits import HistoryLimits
    from traces.check.page import make_page

    limits = HistoryLimits(
        complete=complete,
        all_consumed=all_consumed,
        double_owner_ms=double_owner * 1000,
        orphan_ms=orphan * 1000,
        order=dict(_order_of(text) for text in order or ()),
    )
    judge = HistoryCheck(limits, only=group)
    verdict = run(lambda: _judge(trace or [], namesrv, judge))
    if json:
        print_json(verdict_document(verdict))
    else:
        print_verdict(verdict, limits)
    if html is not None:
        with exit_with_error():
            _write_page(html, make_page(verdict, "rlab check"))
        if not json:
            print_line(f"page: {html.resolve()}")
    if not verdict.ok:
        raise typer.Exit(FAILED if verdict.answer.value == "no" else UNKNOWN)


def _write_page(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:  # which would end with the code of the answer no
        raise ConfigError(f"cannot write the page {path}: {error.strerror}") from error


def _order_of(text: str) -> tuple[str, OrderScope]:
    """Read a value of --order.

    Raises:
        typer.BadParameter: it is not GROUP=queue or GROUP=key.
    """
    from traces.check.limits import OrderScope

    group, separator, keeps = text.rpartition("=")
    if not separator or not group or keeps not in list(OrderScope):
        raise typer.BadParameter(f"--order {text!r}: say GROUP=queue or GROUP=key")
    return group, OrderScope(keeps)


async def _judge(traces: list[Path], name_servers: str, check: HistoryCheck) -> Verdict:
    from cli.trace.events import SkippedLines, feed_trace

    skipped = SkippedLines()
    missing = await feed_trace(traces, name_servers, check.feed, skipped, check.use)
    if missing.limit:
        print_note(f"note: {missing.limit}")
    if skipped.n:
        print_note(f"note: {skipped.n:,} lines were left out, the first is {skipped.first}")
    return check.finish(missing=missing)


def print_verdict(verdict: Verdict, limits: HistoryLimits) -> None:
    """Print a verdict: the rules, then each anomaly with its events."""
    from traces.check.words import clock_text, headline, rule_condition, rule_text, summary, witness_lines
    from traces.figures.faults import describe_fault

    print_table(
        ["answer", "rule", "asks that", ">judged", ""],
        [
            (each.answer.value, each.rule.value, rule_condition(each.rule), each.checked, rule_text(each))
            for each in verdict.rules
        ],
    )
    for number, anomaly in enumerate(verdict.anomalies, 1):
        print_line(f"{number}. {headline(anomaly)}")
        for line in witness_lines(anomaly):
            print_line(f"   {line}")
        print_line("")
    for each in verdict.messages:
        print_line(
            f"messages of {each.group}: {each.sent:,} acknowledged, {each.received:,} processed, {each.lost:,} not "
            f"processed, {each.duplicates:,} more than once"
        )
    if verdict.messages and not limits.all_consumed and any(each.lost for each in verdict.messages):
        print_line("those may still come; with --all-consumed they count as lost")
    for clock in verdict.clocks:
        print_line(clock_text(clock))
    for fault in verdict.faults:
        print_line(f"injected fault: {describe_fault(fault, verdict.began_ms)}")
    print_line(summary(verdict))


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """The document of `--json`."""
    fields: dict[str, object] = document(verdict)
    return fields
