"""`rlab produce`: send lines, or generated messages, to a topic."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from cli.complete import topics
from cli.options import DEFAULT_DIALECT, DEFAULT_NAME_SERVER, Config, Dialect, Json, NameServers
from model.counted import plural
from model.errors import ConfigError, RlabError, SystemError_, TopicNotExist, UsageError
from model.limits import MAX_BODY_BYTES
from model.message import MESSAGE_GROUP, Message
from model.topic_route import MessageType
from process.lines import read_lines
from process.output import print_note, print_outcome, report_progress
from process.runtime import run
from remoting.tasks import background_tasks

if TYPE_CHECKING:
    from client import Producer

MAX_FAILURES_IN_A_ROW = 100
"""Failed sends in a row after which the command ends: each of them takes all its attempts to fail."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("produce")(produce)


def produce(
    topic: Annotated[str, typer.Argument(show_default=False, help="Topic to send to.", autocompletion=topics)],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", show_default=False, help="One message per line; - or none: standard input."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default=False, help="Send N generated messages; of FILE, the first N lines."
        ),
    ] = None,
    size: Annotated[
        int, typer.Option(metavar="BYTES", min=0, max=MAX_BODY_BYTES, help="Pad generated messages to this size.")
    ] = 0,
    rate: Annotated[
        float | None, typer.Option(metavar="N", min=0.001, show_default=False, help="Messages per second.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(show_default=False, help="Key of every message: all go to one queue.")
    ] = None,
    key_regex: Annotated[
        str | None,
        typer.Option(metavar="REGEX", show_default=False, help="Key of a line: the first group, or else the match."),
    ] = None,
    tag: Annotated[str, typer.Option(help="Tag of every message.")] = "",
    in_flight: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=4096, help="Sends in progress at a time; 1 keeps the order of lines in any case."
        ),
    ] = 64,
    group: Annotated[str, typer.Option(help="Producer group.")] = "rlab-produce",
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    dialect: Dialect = DEFAULT_DIALECT,
    json: Json = False,
    config: Config = None,
) -> None:
    """Send lines to a topic, one message per line.

    Empty lines are skipped. Exit code 0 means that every message was acknowledged.

    Example: seq 1000 | rlab produce orders --rate 100 --key-regex '.*(.)$'
    """
    regex = None if key_regex is None else _compiled(key_regex)

    async def main() -> None:
        from client import Producer

        with open_input(file, count) as fd:
            async with Producer(namesrv, group=group, dialect=dialect) as producer:
                is_new, fifo = await _state(namesrv, topic, dialect)
                sending = Sending(
                    producer, topic, fd, count=count, size=size, rate=rate, key=key, key_regex=regex, tag=tag, fifo=fifo
                )
                await sending.run(in_flight, as_json=json)
                if is_new:
                    print_note(f"note: the first message created topic {topic}; rlab topic create sets its queues")

    run(main)


async def _state(name_servers: str, topic: str, dialect: str) -> tuple[bool, bool]:
    """Whether the topic is new, so that the first send creates it where that is allowed; whether it is one of FIFO."""
    from client.admin.admin import Admin

    try:
        async with Admin(name_servers, dialect=dialect) as admin:
            route = await admin.route(topic)
    except TopicNotExist:
        return True, False
    except RlabError:  # the send reports it, or works nevertheless
        return False, False
    return False, any(data.message_type is MessageType.FIFO for data in route.queues)


def _compiled(regex: str) -> re.Pattern[bytes]:
    try:
        return re.compile(regex.encode())
    except re.error as error:
        raise typer.BadParameter(f"--key-regex {regex!r} is not a regular expression: {error}") from error


@contextmanager
def open_input(path: Path | None, count: int | None) -> Iterator[int | None]:
    """The file descriptor to read lines from; None when messages are generated."""
    if path is None and count is not None:
        yield None
    elif path is None or str(path) == "-":
        yield 0
    else:
        try:
            file = path.open("rb", buffering=0)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        with file:
            yield file.fileno()


@dataclass(slots=True)
class Sending:
    """One run of the command; the fields are its options. `fd` is read for lines; None generates messages.

    With `fifo` the topic takes FIFO messages only, and the key of a message is its message group.
    """

    producer: Producer
    topic: str
    fd: int | None
    count: int | None = None
    size: int = 0
    rate: float | None = None
    key: str | None = None
    key_regex: re.Pattern[bytes] | None = None
    tag: str = ""
    fifo: bool = False
    _sent: int = field(default=0, init=False)
    _failed: int = field(default=0, init=False)
    _failed_in_a_row: int = field(default=0, init=False)
    _last_error: RlabError | None = field(default=None, init=False)

    async def run(self, in_flight: int, *, as_json: bool) -> None:
        """Send everything, `in_flight` messages at a time; print the counts, also when it is cut short.

        Raises:
            RlabError: something could not be sent.
        """
        started = anyio.current_time()
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(report_progress, self._progress)
                await self._send_all(in_flight)
        finally:
            seconds = anyio.current_time() - started
            counts = {"sent": self._sent, "failed": self._failed, "seconds": round(seconds, 3)}
            text = f"sent {self._sent}, failed {self._failed}, in {seconds:.2f} s"
            print_outcome(counts, text, as_json=as_json)
        if self._failed:
            failed = plural(self._failed, "message")
            raise SystemError_(f"{failed} could not be sent; the last one: {self._last_error}")

    def _progress(self) -> str:
        total_text = "" if self.count is None else f" of {self.count}"
        failed = f", failed {self._failed}: {self._last_error}" if self._failed else ""
        return f"sent {self._sent}{total_text}{failed}"

    async def _send_all(self, in_flight: int) -> None:
        # Looked up once before all sends: later sends would overtake the first one, which waits for the route.
        await self.producer.queues(self.topic)
        turn = anyio.Lock(fast_acquire=True)
        async with aclosing(self._bodies()) as bodies, anyio.create_task_group() as tasks:
            for _ in range(in_flight):
                tasks.start_soon(self._work, bodies, turn)

    async def _work(self, bodies: AsyncGenerator[tuple[int, bytes]], turn: anyio.Lock) -> None:
        while True:
            async with turn:
                numbered = await anext(bodies, None)
            if numbered is None:
                return
            await self._send(*numbered)

    async def _bodies(self) -> AsyncGenerator[tuple[int, bytes]]:
        """Bodies, each with its number, at the wanted rate."""
        started, n = anyio.current_time(), 0
        async for number, body in self._generated() if self.fd is None else read_lines(self.fd):
            if not body:
                continue
            if self.rate is not None:
                await anyio.sleep_until(started + n / self.rate)
            yield number, body
            n += 1
            if n == self.count:
                return

    async def _generated(self) -> AsyncGenerator[tuple[int, bytes]]:
        number = 0
        while True:
            number += 1
            yield number, f"message {number}".encode().ljust(self.size, b".")

    async def _send(self, number: int, body: bytes) -> None:
        key = self._key_of(body)
        message = Message(self.topic, body, keys=() if key is None else (key,), tags=self.tag)
        if self.fifo and key is not None:
            message.properties = {MESSAGE_GROUP: key}
        try:
            await self.producer.send(message, key=key)
        except RlabError as error:
            self._failed += 1
            self._failed_in_a_row += 1
            self._last_error = error
            if isinstance(error, UsageError):
                raise type(error)(f"message {number}: {error}") from error
            if self._failed_in_a_row >= MAX_FAILURES_IN_A_ROW:
                raise type(error)(f"stopped after {self._failed_in_a_row} failures in a row: {error}") from error
        else:
            self._sent += 1
            self._failed_in_a_row = 0

    def _key_of(self, body: bytes) -> str | None:
        if self.key_regex is None:
            return self.key
        match = self.key_regex.search(body)
        if match is None:
            return self.key
        # A group that took no part in the match is None.
        key_bytes = match.group(1) if match.re.groups else match.group()
        return self.key if key_bytes is None else key_bytes.decode("utf-8", "backslashreplace")
