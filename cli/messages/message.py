"""`rlab message`: finds messages by key, shows one by its id with every place of it, and recalls a delayed one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster
from cli.messages.consume import message_document
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, TopicName, age_ms
from model.errors import InvalidParameter, QueryNotFound
from model.limits import MAX_LOOKUP_MESSAGES
from model.recall import RecallHandle, parse_recall_handle
from process.output import (
    local_time,
    one_line,
    preview,
    print_error,
    print_json,
    print_line,
    print_note,
    print_outcome,
    print_table,
)
from process.runtime import FAILED, run

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.messages import FoundMessage, FoundMessages

app = typer.Typer(help="Find, show and recall stored messages.", no_args_is_help=True)

_PREVIEW_CHARS = 40
_SHOWN_WHOLE_CHARS = 2_000


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="message")


@app.command()
def find(
    topic: TopicName,
    key: Annotated[str, typer.Option(show_default=False, help="One of the keys of the message.")],
    since: Annotated[
        str | None,
        typer.Option(metavar="90s|10m|1h|2d", show_default=False, help="Only messages stored within this time."),
    ] = None,
    most: Annotated[
        int, typer.Option("--max", metavar="N", min=1, max=MAX_LOOKUP_MESSAGES, help="At most N messages.")
    ] = 32,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Find messages by key, newest first.

    Copies in retry topics and dead-letter topics are found as well. The first search through many stored messages
    takes a while; --since shortens it.

    Example: rlab message find orders --key 42 --since 1h
    """
    age = None if since is None else since_ms(since)

    async def search(admin: Admin) -> FoundMessages:
        if age is None:
            return await admin.query_message(topic, key, max_n=most)
        # Messages have the time of their broker, so an age is counted back from that.
        now_ms = await admin.clock_ms(topic)
        now_ms = round(time.time() * 1000) if now_ms is None else now_ms
        return await admin.query_message(topic, key, max_n=most, begin_ms=max(0, now_ms - age))

    result = ask_cluster(namesrv, search)
    if json:
        print_json(found_document(result))
    elif result.messages:
        print_table(
            ["stored", "topic", "broker", ">queue", ">offset", ">tries", "keys", "tag", "message id", "body"],
            [(*_place(each), *_content(each)) for each in result.messages],
        )
        print_undecodable(result)
    if not result.messages:
        when = "" if since is None else f" in the last {since}"
        fail_without(f"no message of {topic} with key {key!r} was stored{when}", result)
    print_incomplete_search(result)


@app.command()
def show(
    message_id: Annotated[str, typer.Argument(help="Message id, as returned to the producer.", show_default=False)],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show a message and every place where it is stored.

    Places are the queue it was sent to, retry topics of groups that failed on it, and dead-letter topics. A half
    message is open or ended; if it is ended and the message has no other place, it was rolled back.

    Example: rlab message show 5f0c3a9d27e1b8460000002a
    """
    result = ask_cluster(namesrv, lambda admin: admin.view_message(message_id))
    if json:
        print_json(found_document(result))
    elif result.messages:
        print_message(result)
    if not result.messages:
        fail_without(f"no message with id {message_id!r} is stored", result)
    print_incomplete_search(result)


@app.command()
def recall(
    message: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE", help="Its id or its recall handle, as returned to the producer.", show_default=False
        ),
    ],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Recall a delayed message before it is due.

    It is never delivered. Copies of failed messages, which wait for their next attempt, cannot be recalled.

    Example: rlab message recall 5f0c3a9d27e1b8460000002a
    """

    async def main() -> tuple[str, str]:
        from client import Producer
        from client.admin.admin import Admin

        try:
            handle = parse_recall_handle(message)
        except InvalidParameter:
            async with Admin(namesrv) as admin:
                handle = _handle_of(message, await admin.view_message(message))
        async with Producer(namesrv, group="rlab-message") as producer:
            return handle.topic, await producer.recall(handle.topic, handle.text())

    topic, message_id = run(main)
    text = f"message {message_id} of topic {topic} is recalled"
    print_outcome({"topic": topic, "message_id": message_id}, text, as_json=json)


def _handle_of(message_id: str, result: FoundMessages) -> RecallHandle:
    """The recall handle of a delayed message.

    Raises:
        QueryNotFound: no message with this id waits for its delivery.
    """
    for each in result.messages:
        queue = each.message.queue
        if each.due_ms is not None and not each.message.times_delivered:
            return RecallHandle(queue.topic, queue.broker_name, each.due_ms, message_id, -1)
    where = "is stored" if result.messages else "is not stored"
    away = f"; broker {', '.join(result.unreachable)} does not answer" if result.unreachable else ""
    raise QueryNotFound(f"no delayed message with id {message_id!r} waits for its delivery, the message {where}{away}")


def since_ms(text: str) -> int:
    """Read --since: how long ago, in milliseconds.

    Raises:
        typer.BadParameter: it is not a length of time.
    """
    age = age_ms(text)
    if age is None:
        raise typer.BadParameter(f"--since {text!r}: use a number and a unit, such as 90s, 10m, 1h or 2d")
    return age


def fail_without(problem: str, result: FoundMessages) -> None:
    """Print that no message was found, and the brokers that were not searched.

    Raises:
        typer.Exit: always.
    """
    where = f"; broker {', '.join(result.unreachable)} does not answer" if result.unreachable else ""
    print_error(f"{problem}{where}")
    raise typer.Exit(FAILED)


def print_incomplete_search(result: FoundMessages) -> None:
    """Print on stderr that there may be more messages."""
    if not result.is_complete:
        print_note(f"note: these are the newest {len(result.messages)}; there may be more")
    if result.unreachable:
        print_note(f"note: broker {', '.join(result.unreachable)} does not answer, so its messages are missing")


def print_undecodable(result: FoundMessages) -> None:
    """Print on stderr which of the records found are not messages; their bytes are shown as bodies."""
    for each in result.messages:
        if each.undecodable:
            queue, offset = each.message.queue, each.message.offset
            print_note(
                f"note: {queue}+{offset} is not a message, only bytes that a foreign client stored: {each.undecodable}"
            )


def print_message(result: FoundMessages) -> None:
    """Print a message and every place where it is stored; a copy that is not a message as its bytes."""
    whole = [each for each in result.messages if not each.undecodable]
    message = (whole or result.messages)[0].message
    if whole:
        print_line(f"message {message.message_id} of topic {message.topic}, created {_time(message.born_ms)}")
    print_table(
        ["stored", "topic", "broker", ">queue", ">offset", ">tries"], [_place(each) for each in result.messages]
    )
    print_line(one_line(f"keys        {', '.join(message.keys) or '-'}"))
    print_line(one_line(f"tag         {message.tags or '-'}"))
    for name, value in sorted(message.properties.items()):
        print_line(one_line(f"property    {name} = {value}"))
    print_line(f"{'body' if whole else 'payload':<12}{len(message.body)} bytes")
    print_line(preview(message.body, _SHOWN_WHOLE_CHARS))
    print_undecodable(result)


def found_document(result: FoundMessages) -> dict[str, object]:
    """The JSON document of the messages found."""
    return {
        "messages": [
            {
                **message_document(each.message),
                "times_delivered": each.message.times_delivered,
                "due_ms": each.due_ms,
                "undecodable": each.undecodable or None,
                "half": each.half or None,
            }
            for each in result.messages
        ],
        "complete": result.is_complete,
        "unreachable": list(result.unreachable),
    }


def _place(hit: FoundMessage) -> tuple[object, ...]:
    message, queue = hit.message, hit.message.queue
    offset = f"half, {hit.half}" if hit.half else message.offset
    if hit.due_ms is not None:
        offset = f"due {_time(hit.due_ms)}"
    return _time(message.stored_ms), queue.topic, queue.broker_name, queue.queue_id, offset, message.times_delivered


def _content(hit: FoundMessage) -> tuple[object, ...]:
    message = hit.message
    keys = ", ".join(message.keys)
    return keys or None, message.tags or None, message.message_id, preview(message.body, _PREVIEW_CHARS)


def _time(ms: int) -> str:
    return local_time(ms, "milliseconds")
