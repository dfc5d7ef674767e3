"""`rlab group why`: why a queue moved, stage by stage, and why a message came twice or never."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster
from cli.complete import groups, topics
from cli.group.reset import parse_queue
from cli.messages.message import fail_without
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.errors import QueryNotFound
from model.message_queue import MessageQueue
from process.output import document, print_json, print_line, print_table
from process.runtime import run

if TYPE_CHECKING:
    from client.admin.messages import FoundMessages
    from model.missing_trace import MissingTrace
    from traces.why.messages import MessageHistory
    from traces.why.moves import QueueMove

Trace = Annotated[
    list[Path] | None,
    typer.Option("--trace", metavar="FILE", help="Read JSON Lines files instead of SYS_TRACE.", show_default=False),
]
_PLACE = re.compile(r"(?P<topic>.+)@(?P<broker>[^@]+):(?P<queue_id>\d+)\+(?P<offset>\d+)")


def register(app: typer.Typer) -> None:
    """Register the command with `rlab group`."""
    app.command("why")(why)


def why(
    topic: Annotated[str | None, typer.Argument(help="Topic name.", show_default=False, autocompletion=topics)] = None,
    queue: Annotated[str | None, typer.Argument(metavar="BROKER:ID", help="Queue.", show_default=False)] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Group. It may be left out if only one group consumes the queue.",
            show_default=False,
            autocompletion=groups,
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(metavar="ID", show_default=False, help="Explain a message: its id, or TOPIC@BROKER:QUEUE+OFFSET."),
    ] = None,
    trace: Trace = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Explain the last move of a queue, or the deliveries of a message.

    For a queue it shows the change that began its last move, and each stage up to the first message of the new owner.
    For a message it shows which members got it, under which leases, and why it was delivered twice, or never.

    Example: rlab group why orders broker-a:3

    Example: rlab group why --message orders@broker-a:3+4711 --group billing --trace trace.jsonl
    """
    from cli.trace.events import print_missing

    if message is not None:
        if topic is not None:
            raise typer.BadParameter("name a queue, or a message with --message, and not both")
        places = _places_of(message, namesrv)
        histories, missing = run(lambda: _histories(places, group, trace or [], namesrv))
        if json:
            print_json({"deliveries": [document(each) for each in histories], "missing": str(missing)})
        else:
            print_histories(histories)
            print_missing(missing)
        return
    if topic is not None and queue is None:
        topic, _, queue = topic.partition("@")  # as tables name it
    if not topic or not queue:
        raise typer.BadParameter("name a queue as TOPIC BROKER:ID or TOPIC@BROKER:ID, or a message with --message")
    wanted_queue = parse_queue(topic, queue)
    moves, missing = run(lambda: _last_moves(wanted_queue, group, trace or [], namesrv))
    if json:
        print_json({"moves": [move_document(move) for move in moves], "missing": str(missing)})
    else:
        for move in moves:
            print_move(move)
        print_missing(missing)


def _places_of(text: str, name_servers: str) -> list[tuple[MessageQueue, int]]:
    """The places of a message: the given one, or the places where the cluster has a message with its id."""
    match = _PLACE.fullmatch(text)
    if match is not None:
        queue = MessageQueue(match["topic"], match["broker"], int(match["queue_id"]))
        return [(queue, int(match["offset"]))]
    stored: FoundMessages = ask_cluster(name_servers, lambda admin: admin.view_message(text))
    places = [(each.message.queue, each.message.offset) for each in stored.messages if each.message.offset >= 0]
    if not places:
        fail_without(f"no message with id {text!r} is in a queue; a place is named TOPIC@BROKER:QUEUE+OFFSET", stored)
    return places


# --- a queue ---------------------------------------------------------------------------------------------------------


async def _last_moves(
    queue: MessageQueue, group: str | None, traces: list[Path], name_servers: str
) -> tuple[list[QueueMove], MissingTrace]:
    """The last move of a queue in each group, or in one.

    Raises:
        QueryNotFound: the trace has no move of it.
        RlabError: see `feed_trace`.
    """
    from cli.trace.events import SkippedLines, feed_trace, print_clocks
    from model.events import Event
    from traces.why.moves import MoveTracker

    trackers: dict[str, MoveTracker] = {}
    groupless: list[Event] = []

    def take(event: Event) -> None:
        if not event.group:
            groupless.append(event)  # routes and brokers are causes for groups that come later in the trace
            for each in trackers.values():
                each.process(event)
        elif group in (None, event.group):
            tracker = trackers.get(event.group)
            if tracker is None:
                tracker = trackers[event.group] = MoveTracker(event.group)
                for earlier in groupless:
                    tracker.process(earlier)
            tracker.process(event)

    missing = await feed_trace(traces, name_servers, take, SkippedLines(), print_clocks)
    for tracker in trackers.values():
        tracker.finish()
    moves = [move for tracker in trackers.values() if (move := tracker.last(queue)) is not None]
    if not moves:
        of_group = f" in group {group}" if group else ""
        raise QueryNotFound(
            f"the trace has no move of {queue}{of_group}: it may be older, or the queue had no owner, or there is no "
            f"such queue (rlab topic show {queue.topic}){_missing_clause(missing)}"
        )
    return moves, missing


def _missing_clause(missing: MissingTrace) -> str:
    """The clause of an error message that names what the trace does not contain."""
    return f"; but {missing}" if missing else ""


def print_move(move: QueueMove) -> None:
    """Print the waterfall of a move."""
    from traces.why.words import clock, format_span, move_text, stage_text

    print_line(f"group {move.group}: {move_text(move)}")
    at_ms, rows = 0.0, []
    longest = max((stage.took_ms for stage in move.stages), default=0.0)
    for stage in move.stages:
        at_ms += stage.took_ms
        bar = "█" * round(24 * stage.took_ms / longest) if longest else ""
        rows.append(
            (
                clock(stage.event.t_ms),
                format_span(at_ms),
                format_span(stage.took_ms),
                stage.step.value,
                stage_text(stage),
                bar,
            )
        )
    print_table(["time (UTC)", ">after", ">took", "stage", "what happened", ""], rows)
    print_line(f"in all {format_span(move.took_ms)}; the queue was not read for {format_span(move.gap_ms)}")
    if move.missing:
        print_line(f"not in the trace: {', '.join(move.missing)}")


def move_document(move: QueueMove) -> dict[str, object]:
    """The JSON document of a move."""
    from traces.why.words import describe_change, stage_text

    return {
        "group": move.group,
        "queue": str(move.queue),
        "owner": move.owner,
        "from": move.from_client,
        "cause": None if move.root is None else move.root.id,
        "because": describe_change(move.root),
        "learned": move.learned.name.lower(),
        "took_ms": round(move.took_ms, 3),
        "gap_ms": round(move.gap_ms, 3),
        "missing": [step.value for step in move.missing],
        "stages": [
            {
                "stage": stage.step.value,
                "t_ms": stage.event.t_ms,
                "took_ms": round(stage.took_ms, 3),
                "what": stage_text(stage),
                "event": document(stage.event),
            }
            for stage in move.stages
        ],
    }


# --- a message -------------------------------------------------------------------------------------------------------


async def _histories(
    places: list[tuple[MessageQueue, int]], group: str | None, traces: list[Path], name_servers: str
) -> tuple[list[MessageHistory], MissingTrace]:
    """The history of a message at each of its places, in each group, or in one.

    Raises:
        QueryNotFound: the trace has no event of a group about these places.
        RlabError: see `feed_trace`.
    """
    from cli.trace.events import SkippedLines, feed_trace, print_clocks
    from model.events import Event
    from traces.why.messages import MessageTracker

    trackers: dict[tuple[str, MessageQueue, int], MessageTracker] = {}
    groupless: list[Event] = []

    def take(event: Event) -> None:
        if not event.group:
            groupless.append(event)
            for each in trackers.values():
                each.process(event)
            return
        if group not in (None, event.group):
            return
        for queue, offset in places:
            if (event.topic, event.broker, event.queue_id) == queue:
                key = (event.group, queue, offset)
                if key not in trackers:
                    trackers[key] = MessageTracker(event.group, queue, offset)
                    for earlier in groupless:
                        trackers[key].process(earlier)
                trackers[key].process(event)

    missing = await feed_trace(traces, name_servers, take, SkippedLines(), print_clocks)
    if not trackers:
        where = ", ".join(str(queue) for queue, _ in places)
        of_group = f"group {group}" if group else "a group"
        raise QueryNotFound(f"no event of {of_group} in this trace is about {where}{_missing_clause(missing)}")
    return [tracker.history() for tracker in trackers.values()], missing


def print_histories(histories: list[MessageHistory]) -> None:
    """Print the deliveries of a message to each group, with the events that show them."""
    from traces.check.words import event_text
    from traces.why.words import clock, message_lines

    for history in histories:
        for line in message_lines(history):
            print_line(line)
        events = [event for handout in history.handouts for event in handout.events]
        events += [event for event in (history.skipped, history.passed, history.dead) if event is not None]
        shown_events = sorted(
            {event.id: event for event in events}.values(), key=lambda event: (event.t_ms, event.node)
        )
        print_table(
            ["time (UTC)", "node", "event", ""],
            [(clock(event.t_ms), event.node, event.kind, event_text(event)) for event in shown_events],
        )
