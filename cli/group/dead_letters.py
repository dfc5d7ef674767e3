"""`rlab group dlq`: list, show and re-send the dead-letter messages of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.ask import ask_cluster
from cli.messages.consume import message_document
from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers, switch
from model.counted import plural
from model.errors import QueryNotFound
from process.output import (
    local_time,
    preview,
    print_json,
    print_line,
    print_note,
    print_outcome,
    print_table,
    report_progress,
)
from remoting.tasks import background_tasks

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.dead_letters import DeadLetter

app = typer.Typer(help="List, show and re-send the dead-letter messages of a group.", no_args_is_help=True)

_PREVIEW_CHARS = 40


def register(parent: typer.Typer) -> None:
    """Register the commands with `rlab group`."""
    parent.add_typer(app, name="dlq")


@app.command("list")
def list_letters(
    group: GroupName, namesrv: NameServers = DEFAULT_NAME_SERVER, json: Json = False, config: Config = None
) -> None:
    """Count the dead-letter messages of a group.

    Example: rlab group dlq list billing
    """
    queues = ask_cluster(namesrv, lambda admin: admin.dead_letters(group).queues())
    if json:
        print_json({"group": group, "queues": queues})
        return
    print_table(
        ["queue", ">messages", ">re-sent", "oldest", "newest"],
        [(str(q.queue), q.letters, q.resent, time_text(q.oldest_ms), time_text(q.newest_ms)) for q in queues],
        empty=f"group {group} has no dead-letter messages",
    )
    if queues:
        print_line(f"{sum(q.letters - q.resent for q in queues)} to re-send")


@app.command()
def show(
    group: GroupName,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Show only this message, in full; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Show at most N, oldest first.")] = 20,
    pending: Annotated[bool, switch("--pending", help_text="Show only messages that were not re-sent.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show dead-letter messages.

    The reason of a failure is not stored: the consumer has logged it with the message id.

    Example: rlab group dlq show billing --limit 5
    """
    wanted_ids = set(message_id or ())

    async def select(admin: Admin) -> tuple[list[DeadLetter], bool]:
        """Returns the letters, and whether there are more."""
        letters_found: list[DeadLetter] = []
        async for letter in admin.dead_letters(group).letters():
            if (pending and letter.resent) or (wanted_ids and letter.message.message_id not in wanted_ids):
                continue
            if len(letters_found) == limit:
                return letters_found, True
            letters_found.append(letter)
        missing = wanted_ids - {letter.message.message_id for letter in letters_found}
        if missing:
            raise QueryNotFound(f"no dead-letter message of group {group!r} has the id {', '.join(sorted(missing))}")
        return letters_found, False

    letters, more = ask_cluster(namesrv, select)
    if json:
        print_json({"group": group, "letters": [dead_letter_document(letter) for letter in letters], "more": more})
    elif wanted_ids:
        for letter in letters:
            _print_in_full(letter)
    else:
        left = "left to re-send" if pending else ""
        _print_dead_letters(letters, empty=f"group {group} has no dead-letter messages {left}".rstrip())
    if more:
        print_note(f"note: there are more; --limit shows more than {limit}")


@app.command()
def resend(
    group: GroupName,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Re-send this message; may be repeated.")
    ] = None,
    everything: Annotated[bool, switch("--all", help_text="Re-send every message that was not re-sent yet.")] = False,
    to: Annotated[
        str, typer.Option(metavar="group|topic", help="To this group only, or to the topic and so to every group.")
    ] = "group",
    again: Annotated[bool, switch("--again", help_text="With --id: re-send it even if that was done before.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Re-send dead-letter messages.

    Each keeps its topic, id, keys, tags and properties, and its attempts are counted from zero. Re-sent messages stay
    listed and are marked, so a second --all does not re-send them. The command may be stopped and repeated at any time;
    up to 64 messages that were in progress at that moment may be sent twice.

    Example: rlab group dlq resend billing --all
    """
    from client.admin.dead_letters import ResendTo

    if bool(message_id) == everything:
        raise typer.BadParameter("use either --id ID or --all")
    if again and everything:
        raise typer.BadParameter("--again needs --id: name each message that is to be sent twice")
    if to not in set(ResendTo):
        raise typer.BadParameter(f"--to {to!r}: use {' or '.join(ResendTo)}")
    sent = passed_over = 0

    def note(n: int) -> None:
        nonlocal sent
        sent = n

    async def resend_chosen(admin: Admin) -> int:
        nonlocal passed_over
        async with background_tasks() as tasks:
            letters = admin.dead_letters(group)
            tasks.start_soon(report_progress, lambda: f"{plural(sent, 'message')} re-sent")
            if everything:
                n = await letters.resend_all(ResendTo(to), note)
                passed_over = letters.passed_over
                return n
            chosen = _chosen(group, await letters.find(message_id or (), include_resent=again))
            await letters.resend(chosen, ResendTo(to))
            return len(chosen)
        raise AssertionError("the block returns or raises")

    n = ask_cluster(namesrv, resend_chosen)
    text = f"{n} {'message' if n == 1 else 'messages'} re-sent to the {to}"
    print_outcome({"group": group, "resent": n, "to": to, "passed_over": passed_over}, text, as_json=json)
    print_unreadable(passed_over, "left in the DLQ")


def _chosen(group: str, by_id: dict[str, list[DeadLetter]]) -> list[DeadLetter]:
    """The messages that were found, at least one with each id."""
    missing = [message_id for message_id, letters in by_id.items() if not letters]
    if missing:
        raise QueryNotFound(
            f"nothing was sent: group {group!r} has no dead-letter message to re-send with the id "
            f"{', '.join(missing)}; "
            "if it was re-sent before, --again sends it once more"
        )
    return [letter for letters in by_id.values() for letter in letters]


def dead_letter_document(letter: DeadLetter) -> dict[str, Any]:
    """The JSON document of a dead-letter message: the message, its retries, and whether it was re-sent."""
    return {
        **message_document(letter.message),
        "retries": letter.message.times_delivered,
        "resent": letter.resent,
        "undecodable": letter.undecodable or None,
    }


def _print_dead_letters(letters: Sequence[DeadLetter], *, empty: str) -> None:
    print_table(
        ["at", "topic", "id", "keys", "tags", ">retries", "since", "re-sent", "body"],
        [
            (
                _place(letter),
                letter.message.topic,
                letter.message.message_id,
                " ".join(letter.message.keys),
                letter.message.tags,
                letter.message.times_delivered,
                time_text(letter.message.stored_ms),
                "yes" if letter.resent else "no",
                preview(letter.message.body, _PREVIEW_CHARS),
            )
            for letter in letters
        ],
        empty=empty,
    )
    print_unreadable(sum(bool(letter.undecodable) for letter in letters), "shown as bytes")


def print_unreadable(count: int, remedy: str) -> None:
    """Print on stderr how many dead letters are not messages, and their fate; nothing if all are."""
    if count:
        what_they_are = "is not a message" if count == 1 else "are not messages"
        print_note(f"note: {count} in the DLQ {what_they_are}, but bytes of a foreign client: {remedy}")


def _print_in_full(letter: DeadLetter) -> None:
    message = letter.message
    rows = {
        "id": message.message_id,
        "at": _place(letter),
        "topic": message.topic,
        "keys": " ".join(message.keys),
        "tags": message.tags,
        **{f"property {name}": value for name, value in message.properties.items()},
        "retries": message.times_delivered,
        "created": time_text(message.born_ms),
        "in the DLQ since": time_text(message.stored_ms),
        "re-sent": "yes" if letter.resent else "no",
        "body": f"{len(message.body)} bytes: {preview(message.body, 1_000)}",
    }
    print_table(["field", "value"], list(rows.items()))


def _place(letter: DeadLetter) -> str:
    queue = letter.message.queue
    return f"{queue.broker_name}:{queue.queue_id}+{letter.message.offset}"


def time_text(ms: int | None) -> str | None:
    """A wall clock time for people, in their time zone."""
    return None if ms is None else local_time(ms)
