"""`rlab group history` and `rlab group watch`: the rebalances of a group, as they were and as they happen."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.group.why import Trace
from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers
from model.counted import plural
from model.errors import QueryNotFound
from model.names import is_retry_topic
from process.output import document, print_json, print_line, print_note, print_table
from process.runtime import run

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from model.events import Event
    from model.missing_trace import MissingTrace
    from traces.figures.records import Rebalance
    from traces.why.moves import QueueMove

CAUSES_MS = 60_000.0
"""How far back a watched trace is read first: the cause of the next move may have happened already."""
NO_MESSAGE_MS = 2_000.0
"""Time after which a move is printed although its queue has no message yet."""


def register(app: typer.Typer) -> None:
    """Register the commands with `rlab group`."""
    app.command("history")(history)
    app.command("watch")(watch)


def history(
    group: GroupName,
    trace: Trace = None,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="Show only the last N.")] = 50,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """List the rebalances of a group, with cause and cost.

    The figures are those of rlab report, which draws them. Passes by timer that changed nothing are left out.

    Example: rlab group history billing --last 10
    """
    from cli.trace.events import print_missing

    rows, missing = run(lambda: _rebalances(group, trace or [], namesrv))
    rows = rows[-last:]
    if json:
        print_json({"rebalances": [_document(row) for row in rows], "missing": str(missing)})
    else:
        print_rebalances(rows)
        print_missing(missing)


async def _rebalances(group: str, traces: list[Path], name_servers: str) -> tuple[list[Rebalance], MissingTrace]:
    from cli.trace.events import SkippedLines, feed_trace, print_clocks
    from traces.figures.records import Rebalance
    from traces.figures.trace import TraceFigures

    figures = TraceFigures(only=group)
    rows: list[Rebalance] = []

    def take(event: Event) -> None:
        rows.extend(row for row in figures.feed(event) if isinstance(row, Rebalance))

    missing = await feed_trace(traces, name_servers, take, SkippedLines(), print_clocks)
    rows += [row for row in figures.finish() if isinstance(row, Rebalance)]
    if group not in figures.groups:
        raise QueryNotFound(f"the trace has no event of group {group}" + (f", but {missing}" if missing else ""))
    return sorted(rows, key=lambda row: row.began_ms), missing


def print_rebalances(rows: list[Rebalance]) -> None:
    """Print a row for each rebalance."""
    from traces.why.words import clock, describe_cause, format_span

    print_table(
        ["time (UTC)", "because", "passes by", ">members", ">moves", ">needed", ">took", ">no owner", ">two owners"],
        [
            (
                clock(row.began_ms),
                describe_cause(row),
                row.trigger.replace("+", " "),
                row.members if row.members >= 0 else None,
                row.moves,
                row.needed,
                format_span(row.balance_ms),
                format_span(row.orphan_ms),
                format_span(row.double_ms),
            )
            for row in rows
        ],
        empty="no rebalance in this trace",
    )


def _document(row: Rebalance) -> dict[str, object]:
    from traces.why.words import describe_cause

    return {**document(row), "because": describe_cause(row), "balance_ms": row.balance_ms}


def watch(
    group: GroupName,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Print each queue of a group that moves, as it moves.

    A line has the cause and the time for which the queue was not read. It runs until it is stopped.

    A line comes some seconds after its move, because nodes send their events once a second and out of step.

    Example: rlab group watch billing
    """

    async def main() -> None:
        from client.admin.admin import Admin

        async with Admin(namesrv) as admin:
            async for move in watch_moves(admin, group, time.time() * 1000 - CAUSES_MS, print_note):
                if json:
                    from cli.group.why import move_document

                    print_json(move_document(move))
                else:
                    print_line(move_line(move))

    run(main, endless=True)


async def watch_moves(
    admin: Admin, group: str, since_ms: float, say: Callable[[str], object]
) -> AsyncIterator[QueueMove]:
    """The moves of a group from now on; their causes are searched since the given time.

    Raises:
        GroupNotExist: no broker knows it.
        TopicNotExist: no broker keeps a trace.
        RlabError: the cluster does not answer.

    Cancellation: harmless.
    """
    from cli.trace.events import check_trace, follow_topic
    from traces.check.words import clock_text
    from traces.why.moves import MoveTracker

    await check_trace(admin)
    info = await admin.group(group)
    queues = [row for row in info.queues if not is_retry_topic(row.queue.topic)]
    say(f"watching {group}: {plural(len(info.members), 'member')}, {plural(len(queues), 'queue')}")
    tracker = MoveTracker(group)
    for row in queues:
        if row.owner is not None:
            tracker.owned(row.queue, row.owner)
    is_first = True
    async for known_ms, events in follow_topic(admin, since_ms, lambda fault: say(f"note: {clock_text(fault)}")):
        moves = [move for event in events for move in tracker.process(event)]
        if is_first:
            tracker.finish()  # moves that were under way are printed, and are not new
            is_first = False
            continue
        for move in (*moves, *tracker.finish(known_ms - NO_MESSAGE_MS)):
            yield move


def move_line(move: QueueMove) -> str:
    """A move in one line."""
    from traces.why.words import clock, format_span, move_text

    took, unread = format_span(move.took_ms), format_span(move.gap_ms)
    return f"{clock(move.began_ms)}  {move_text(move)} It took {took}, {unread} unread."
