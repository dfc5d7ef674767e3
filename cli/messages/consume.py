"""`rlab consume`: join a group and print the messages that are delivered."""

from __future__ import annotations

import base64
import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from cli.complete import groups, strategies, topics
from cli.options import (
    DEFAULT_DIALECT,
    DEFAULT_NAME_SERVER,
    Config,
    Dialect,
    Json,
    NameServers,
    StrategiesHelp,
    Verbose,
    moment_ms,
    switch,
)
from model.assignment import BROKER_STRATEGY, AssignedBy
from model.counted import plural
from model.errors import ConfigError, QueryNotFound, UsageError
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import MessageExt
from model.quirks import CLIENT_QUIRKS, Quirk
from model.subscription import ALL, Expression, Sql
from process.lines import write_all
from process.runtime import run

_BATCH = 32
_STRATEGY = "Allocation strategy, the same for all members: {strategies}, or BROKER."
_ORDER = "Processing order: none, per queue, or per first key."
_MODE = "Assign whole queues (pull) or deliver single messages (pop), so that more members than queues get work."
_GRACE_S = 0.5
"""Time to print a message when its queue is revoked; shutdown waits as long for messages that are no longer printed."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("consume", cls=StrategiesHelp)(consume)


_Start = Annotated[
    str,
    typer.Option(
        "--from",
        envvar="RLAB_CONSUME_FROM",
        metavar="earliest|latest|TIME",
        help="Start of a group without committed offsets; TIME is ISO 8601 or milliseconds since 1970.",
    ),
]
_Count = Annotated[int | None, typer.Option(metavar="N", min=1, show_default=False, help="End after N messages.")]
_Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0.001,
        show_default=False,
        help="End after this time; exit code 1 if --count was not reached.",
    ),
]
_Quirks = Annotated[
    list[Quirk] | None,
    typer.Option(
        metavar="NAME",
        help=f"Reproduce a defect of RocketMQ's clients; may be repeated: {', '.join(sorted(CLIENT_QUIRKS))}.",
    ),
]
_Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="SQL",
        show_default=False,
        help="Only messages whose properties match, in RocketMQ's SQL92: price > 10 AND region = 'north'.",
    ),
]
_Broadcast = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="Receive every message, as each broadcasting member does; offsets are kept in a file NAME.",
    ),
]
_OffsetsDir = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", show_default=False, help="Folder of the offsets of --broadcast; by default ~/.rlab-offsets."
    ),
]


def consume(
    topic: Annotated[str, typer.Argument(show_default=False, help="Topic to consume.", autocompletion=topics)],
    group: Annotated[
        str,
        typer.Option(
            show_default=False, help="Consumer group; its queues are assigned to its members.", autocompletion=groups
        ),
    ],
    start: _Start = "latest",
    count: _Count = None,
    timeout: _Timeout = None,
    tags: Annotated[str, typer.Option(metavar="'A || B'", help="Only messages with one of these tags.")] = ALL,
    sql: _Filter = None,
    strategy: Annotated[str, typer.Option(help=_STRATEGY, autocompletion=strategies)] = "AVG",
    wait: Annotated[bool, switch("--wait", help_text="Wait for the topic if it does not exist yet.")] = False,
    order: Annotated[str, typer.Option(metavar="none|queue|key", help=_ORDER)] = "none",
    mode: Annotated[str, typer.Option(metavar="pull|pop", help=_MODE)] = "pull",
    quirk: _Quirks = None,
    broadcast: _Broadcast = None,
    offsets_dir: _OffsetsDir = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    dialect: Dialect = DEFAULT_DIALECT,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Print messages of a topic, one per line.

    Consumes as a member of a group until stopped, and then leaves the group.

    With --json each line is an object with body (or body_base64), topic, broker, queue_id, offset, keys, tags,
    properties, born_ms, stored_ms and message_id.

    Example: rlab consume orders --group billing --from earliest --count 100 --timeout 10

    Example: rlab consume orders --group north --filter "region = 'north' AND TAGS IN ('new', 'paid')"

    Example: rlab consume prices --group caches --broadcast $HOSTNAME
    """
    consume_from, timestamp_ms = parse_start(start)
    options = {
        "consume_from": consume_from,
        "consume_timestamp_ms": timestamp_ms,
        "order": order,
        "mode": mode,
        "quirks": frozenset(quirk or ()),
        "dialect": dialect,
        **broadcast_options(broadcast, offsets_dir),
    }
    consuming = Consuming(topic, filter_expression(tags, sql), count=count, timeout_s=timeout, as_json=json)
    run(lambda: consuming.run(namesrv, group, strategy, wait=wait, **options), endless=True, verbose=verbose)


def filter_expression(tags: str, sql: str | None) -> Expression:
    """The expression for --tags and --filter.

    Raises:
        typer.BadParameter: both are given, or the filter is not an expression of the language.
    """
    if sql is None:
        return tags
    if tags != ALL:
        raise typer.BadParameter("--tags and --filter exclude each other: a tag is TAGS = 'A' in a filter")
    try:
        return Sql(sql)
    except UsageError as error:
        raise typer.BadParameter(f"--filter: {error}") from error


def broadcast_options(name: str | None, offsets_dir: Path | None) -> dict[str, Any]:
    """The consumer options for --broadcast and --offsets-dir.

    Raises:
        typer.BadParameter: --offsets-dir without --broadcast.
    """
    if name is None and offsets_dir is not None:
        raise typer.BadParameter("--offsets-dir needs --broadcast: without it, offsets are kept by the brokers")
    if name is None:
        return {}
    folder = {} if offsets_dir is None else {"offsets_dir": offsets_dir}
    return {"model": MessageModel.BROADCASTING, "instance_name": name, **folder}


def parse_start(text: str) -> tuple[ConsumeFrom, int]:
    """Read --from: the policy, and for a time its milliseconds since 1970.

    Raises:
        typer.BadParameter: it is neither a policy nor a time.
    """
    policies = {"earliest": ConsumeFrom.FIRST_OFFSET, "latest": ConsumeFrom.LAST_OFFSET}
    if text in policies:
        return policies[text], 0
    try:
        return ConsumeFrom.TIMESTAMP, max(1, moment_ms(text))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"--from {text!r}: use earliest, latest, a time since 1970 such as 2026-01-31T12:00:00, or milliseconds "
            "since 1970"
        ) from error


class Consuming:
    """One run of the command."""

    def __init__(
        self, topic: str, expression: Expression, *, count: int | None, timeout_s: float | None, as_json: bool
    ) -> None:
        self._topic = topic
        self._expression = expression
        self._count = count
        self._timeout_s = timeout_s
        self._as_json = as_json
        self._received = 0
        self._write_error: OSError | None = None

    async def run(self, namesrv: str, group: str, strategy: str, *, wait: bool, **options: Any) -> None:
        """Consume until the count, the time or a signal; `options` are further ones of the `PushConsumer`.

        Raises:
            RlabError: an impossible option, the topic does not exist, no server can be reached, or --count was not
                reached in time.
            OSError: the output cannot be written.
        """
        from client import PushConsumer
        from client.admin.admin import Admin
        from client.allocate.registry import strategy_named

        by_broker = strategy == BROKER_STRATEGY
        try:
            chosen = None if by_broker else strategy_named(strategy)
        except ConfigError as error:
            raise ConfigError(f"{error}; with {BROKER_STRATEGY} a broker assigns the queues") from error
        consumer = PushConsumer(
            namesrv,
            group=group,
            strategy=chosen,
            assignment=AssignedBy.BROKER if by_broker else AssignedBy.CLIENT,
            # One worker keeps the order of each queue. Batches of one let it end after exactly --count messages.
            max_workers=1,
            consume_batch=1 if self._count is not None else _BATCH,
            shutdown_grace_s=_GRACE_S,
            **options,
        )
        if not wait:  # a consumer could wait for its topic, but a typed name is meant to exist
            async with Admin(namesrv, dialect=options.get("dialect", DEFAULT_DIALECT)) as admin:
                await admin.route(self._topic)
        self._done = anyio.Event()
        async with consumer:
            await consumer.subscribe(self._topic, self._on_messages, self._expression)
            with anyio.move_on_after(self._timeout_s):
                await self._done.wait()
        if isinstance(self._write_error, BrokenPipeError):
            return  # the reader has seen enough, as in `rlab consume ... | head`
        if self._write_error is not None:
            raise self._write_error
        if self._count is not None and self._received < self._count:
            raise QueryNotFound(
                f"received {self._received} of {plural(self._count, 'message')} in {self._timeout_s:g} s"
            )

    async def _on_messages(self, messages: Sequence[MessageExt]) -> None:
        if not self._done.is_set():
            try:
                await write_all(sys.stdout.fileno(), b"".join([self._line(message) for message in messages]))
            except OSError as error:
                self._write_error = error
                self._done.set()
            else:
                self._received += len(messages)
                if self._received == self._count:
                    self._done.set()
                return
        # Neither processed nor failed: they stay uncommitted, for the next owner of the queue.
        await anyio.sleep_forever()

    def _line(self, message: MessageExt) -> bytes:
        if not self._as_json:
            return message.body + b"\n"
        return jsonlib.dumps(message_document(message), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def message_document(message: MessageExt) -> dict[str, object]:
    """The JSON document of a message."""
    try:
        body = {"body": message.body.decode("utf-8")}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode("ascii")}
    return {
        **body,
        "topic": message.topic,
        "queue": str(message.queue),
        "offset": message.offset,
        "keys": list(message.keys),
        "tags": message.tags,
        "properties": dict(message.properties),
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "message_id": message.message_id,
    }
