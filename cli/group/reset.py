"""`rlab group reset`: reset the offsets of a group on a topic, also while it consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers, TopicName, age_ms, moment_ms, switch
from model.errors import InvalidParameter
from model.message_queue import MessageQueue
from model.offset_reset import QueueReset, ResetTo
from process.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from client.admin.admin import Admin

_QUEUE_DIGITS = 9


def register(app: typer.Typer) -> None:
    """Register the command with `rlab group`."""
    app.command("reset")(reset)


def reset(
    group: GroupName,
    topic: TopicName,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="earliest|latest|TIME",
            show_default=False,
            help="TIME is ISO 8601, milliseconds since 1970, or an age: 90s, 5m, 1h, 2d.",
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, show_default=False, help="This offset; needs --queue.")
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            metavar="N", show_default=False, help="Move by N messages in each queue; a negative N moves back: -100."
        ),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(metavar="BROKER:ID", help="Reset only this queue; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, switch("--dry-run", help_text="Show the new offsets and change nothing.")] = False,
    create: Annotated[bool, switch("--create", help_text="Allow a group that does not exist yet.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Reset the offsets of a group on a topic.

    The consumers may keep running: they drop fetched messages and continue at the new offsets. Messages that are with a
    listener at that moment are processed to the end, and are redelivered if they are at or after the new offset.

    Example: rlab group reset billing orders --to 1h
    """
    target = parse_reset_target(to, to_offset, shift, named_queues=bool(queue))
    queues = [parse_queue(topic, text) for text in queue] if queue else None
    age = None if to is None else age_ms(to)

    async def change(admin: Admin) -> tuple[QueueReset, ...]:
        # Messages have the time of their broker, so an age is counted back from that.
        now_ms = None if age is None else await admin.clock_ms(topic)
        reset_to = target if age is None or now_ms is None else ResetTo.time(max(0, now_ms - age))
        return await admin.reset_offsets(group, topic, reset_to, queues=queues, dry_run=dry_run, create=create)

    resets = ask_cluster(namesrv, change)
    print_resets(resets, dry_run=dry_run, as_json=json)


def parse_reset_target(to: str | None, to_offset: int | None, shift: int | None, *, named_queues: bool) -> ResetTo:
    """The target that the options name.

    Raises:
        typer.BadParameter: they name no target, more than one, or an impossible one.
    """
    if [to, to_offset, shift].count(None) != 2:
        raise typer.BadParameter("use one of --to earliest|latest|TIME, --to-offset N and --shift N")
    try:
        if to is not None:
            return _named(to)
        if to_offset is not None:
            if not named_queues:
                raise typer.BadParameter(
                    "--to-offset needs --queue BROKER:ID, because the same offset is another message in every queue"
                )
            return ResetTo.offset(to_offset)
        return ResetTo.shift(shift or 0)
    except InvalidParameter as error:
        raise typer.BadParameter(str(error)) from error


def _named(text: str) -> ResetTo:
    if text in ("earliest", "latest"):
        return ResetTo.earliest() if text == "earliest" else ResetTo.latest()
    return ResetTo.time(parse_time(text))


def parse_time(text: str) -> int:
    """Read a time; returns its milliseconds since 1970.

    Raises:
        typer.BadParameter: it is not a time.
    """
    from client.config import wall_clock_ms

    try:
        if (age := age_ms(text)) is not None:
            return max(0, int(wall_clock_ms()) - age)
        return moment_ms(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"--to {text!r}: use earliest, latest, a time since 1970 such as 2026-01-31T12:00:00, milliseconds since "
            "1970, or an age without a sign: 90s, 5m, 1h, 2d"
        ) from error


def parse_queue(topic: str, text: str) -> MessageQueue:
    """Read `broker:id`, or `topic@broker:id` as other commands print it.

    Raises:
        typer.BadParameter: it is neither.
    """
    broker, _, number = text.removeprefix(f"{topic}@").rpartition(":")
    if not broker or not (number.isascii() and number.isdecimal()) or len(number) > _QUEUE_DIGITS:
        raise typer.BadParameter(
            f"{text!r} is not a queue: use the broker and the number of the queue, as in broker-a:3"
        )
    return MessageQueue(topic, broker, int(number))


def print_resets(resets: tuple[QueueReset, ...], *, dry_run: bool, as_json: bool) -> None:
    """Print the offsets of each queue before and after."""
    if as_json:
        print_json({"dry_run": dry_run, "queues": resets})
        return
    print_table(
        ["queue", ">before", ">after", ">moved", "owner"],
        [
            (str(r.queue), r.before, r.after, None if r.before is None else f"{r.after - r.before:+d}", r.owner)
            for r in resets
        ],
        title="dry run: nothing was changed" if dry_run else "",
        empty="the topic has no queues",
    )
    beyond = [str(r.queue) for r in resets if r.clamped]
    if beyond:
        print_note(f"note: the offset is outside of {', '.join(beyond)}; the nearest end was taken")
