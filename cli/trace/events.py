"""Reads the events of a trace without Spark: from JSON Lines, or from the topic SYS_TRACE of a running cluster."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

import anyio

from client.admin.admin import Admin
from client.config import wall_clock_ms
from model.errors import ConfigError, NetworkError, NotMaster, ServiceNotAvailable, TopicNotExist
from model.event_log import encode_events
from model.events import Event
from model.limits import MAX_EVENTS_PER_READ, MAX_PULL_BATCH
from model.message_queue import MessageQueue
from model.missing_trace import MissingTrace, SilentBrokers
from model.names import TRACE_TOPIC
from process.output import print_line, print_note
from traces.check.reading import BadLine, Sorter, in_order, parse_events
from traces.check.words import clock_text
from traces.figures.clocks.clocks import ClockFault, ClockReader, Clocks
from traces.figures.clocks.live import LiveClocks
from traces.figures.records import order_of

STDIN = Path("-")
READ_BYTES = 64 * 1024
"""Size of the part of a file that is decoded together."""
HELD_EVENTS = 100_000
"""Events of a file that are kept between two readings, a hundred megabytes; most traces have fewer."""
FOLLOW_S = 0.5
"""How often a trace that is followed is asked for more; nodes send theirs once a second."""
SETTLE_MS = 2_500.0
"""Age at which an event of a growing trace is shown: the events of other nodes at the same time have arrived then."""


@dataclass(slots=True)
class SkippedLines:
    """Lines of a trace that are not events."""

    n: int = 0
    first: str = ""

    def take(self, error: BadLine) -> None:
        """Count one."""
        self.n += 1
        self.first = self.first or str(error)


class _ReadTwice:
    """Events that are read first to compare clocks, and then with their right times; the first ones stay in memory.

    Those of a file are read from it again, others go to a temporary file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = None if path == STDIN else path
        self._held: list[Event] = []
        self._file: BinaryIO | None = None
        self._are_all_held = True

    def add(self, event: Event) -> None:
        """Add an event of the first reading."""
        if len(self._held) < HELD_EVENTS:
            self._held.append(event)
            return
        self._are_all_held = False
        if self._path is None:
            if self._file is None:
                self._file = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - it is closed with its last reference
            self._file.write(encode_events([event]))

    def again(self) -> Iterator[Event]:
        """All of them, as they came."""
        if self._are_all_held or self._path is None:
            yield from self._held
        if self._file is not None:
            self._file.seek(0)
            while lines := self._file.readlines(READ_BYTES):
                yield from parse_events(lines, lambda bad: None)
        elif not self._are_all_held and self._path is not None:
            yield from _lines_of(self._path, SkippedLines())


def read_files(
    paths: list[Path], skipped: SkippedLines, know: Callable[[Clocks], object] = lambda clocks: None
) -> Iterator[Event]:
    """Read JSON Lines files in order, `-` is standard input; several files are one history.

    The events have their right times; `know` is called with the clocks before the first one.

    Raises:
        ConfigError: there is no such file, or it has no event.
        OSError: it cannot be read.
    """
    for path in paths:
        if path != STDIN and not path.is_file():
            raise ConfigError(f"there is no trace {path}: name a file of JSON Lines, or - for standard input")
    reader, files, n = ClockReader(), [_ReadTwice(path) for path in paths], 0
    for path, file in zip(paths, files, strict=True):
        for event in _lines_of(path, skipped):
            reader.read(event)
            file.add(event)
            n += 1
    if not n:
        first_skipped = f": {skipped.first}" if skipped.n else ""
        raise ConfigError(f"{', '.join(map(str, paths))} has no events{first_skipped}")
    clocks = reader.finish()
    know(clocks)
    yield from in_order(_merged([map(clocks.correct, file.again()) for file in files]))


def _merged(streams: list[Iterator[Event]]) -> Iterator[Event]:
    """Merge files by the times of their events, because they are parts of one history."""
    if len(streams) == 1:
        yield from streams[0]
        return
    heads = {number: event for number, stream in enumerate(streams) if (event := next(stream, None)) is not None}
    while heads:
        number = min(heads, key=lambda each: heads[each].t_ms)
        yield heads.pop(number)
        following = next(streams[number], None)
        if following is not None:
            heads[number] = following


def _lines_of(path: Path, skipped: SkippedLines) -> Iterator[Event]:
    with sys.stdin.buffer if path == STDIN else path.open("rb") as file:
        while lines := file.readlines(READ_BYTES):
            yield from parse_events(lines, skipped.take)


async def check_trace(admin: Admin) -> None:
    """Check that some broker keeps a trace.

    Raises:
        TopicNotExist: no broker has it.
        ServiceNotAvailable: those that do are absent.
        RlabError: the cluster does not answer.

    Cancellation: harmless.
    """
    try:
        await admin.route(TRACE_TOPIC)
    except TopicNotExist as error:
        if missing := await admin.missing_trace():
            raise ServiceNotAvailable(f"no broker that keeps a part of the trace is there: {missing}") from error
        raise TopicNotExist(f"{error}: its brokers keep no trace, or were started with --no-trace-topic") from error


async def missing_now(admin: Admin) -> MissingTrace:
    """The parts of SYS_TRACE that cannot be read now. Raises: see `check_trace`. Cancellation: harmless."""
    await check_trace(admin)
    return await admin.missing_trace()


async def read_topic(
    name_servers: str, take: Callable[[Event], object], know: Callable[[Clocks], object] = lambda clocks: None
) -> MissingTrace:
    """Pass the present events of SYS_TRACE to a function, in order and with right times; returns the missing parts.

    `know` is called with the clocks before the first event. Raises: see `check_trace`. Cancellation: harmless.
    """
    async with Admin(name_servers) as admin:
        await check_trace(admin)
        reader, read, silent, first_ms = ClockReader(), _ReadTwice(), dict[str, str](), math.inf
        async for event in _pull_all(admin, await _queues(admin, silent), silent):
            reader.read(event)
            read.add(event)
        clocks = reader.finish()
        know(clocks)
        for event in in_order(map(clocks.correct, read.again())):
            first_ms = min(first_ms, event.t_ms)
            take(event)
        trace_s = (wall_clock_ms() - first_ms) / 1000
        return await admin.missing_trace(silent, trace_s if math.isfinite(trace_s) else None)


async def follow_topic(
    admin: Admin, since_ms: float, know: Callable[[ClockFault], object] = lambda fault: None
) -> AsyncIterator[tuple[float, list[Event]]]:
    """Read the events of SYS_TRACE since a time, and then new ones, in order, until it is closed.

    The first list has all stored events, and later ones the new events, each with the time up to which the events are
    known. They have their right times; `know` is called once with each clock that is wrong.
    Raises: see `TraceReader.read`. Cancellation: harmless.
    """
    loop, reader, sorter, ahead_ms = asyncio.get_running_loop(), admin.trace(since_ms), Sorter(), -math.inf
    clocks = LiveClocks()
    events = more = await reader.read()
    while len(more) >= MAX_EVENTS_PER_READ:  # not until an empty answer: a busy trace always has new events
        more = await reader.read()
        events += more
    corrected = clocks.correct(events, loop.time())
    for fault in clocks.news():
        know(fault)
    yield -math.inf, sorted(corrected, key=order_of)
    while True:
        await anyio.sleep(FOLLOW_S)
        now_ms = loop.time() * 1000
        due: list[Event] = []
        for event in clocks.correct(await reader.read(), loop.time()):
            ahead_ms = max(ahead_ms, event.t_ms - now_ms)
            due += sorter.add(event)
        for fault in clocks.news():
            know(fault)
        known_ms = now_ms + ahead_ms - SETTLE_MS
        yield known_ms, due + sorter.older_than(known_ms)


@dataclass(slots=True)
class _TraceQueue:
    """One queue of the topic, and the offset up to which it was read."""

    queue: MessageQueue
    offset: int
    end: int
    newest_ms: float = 0.0


async def _queues(admin: Admin, silent: dict[str, str]) -> list[_TraceQueue]:
    queues = []
    for broker in await admin.brokers():
        try:
            info = await admin.broker_info(broker.broker_name)
        except (NetworkError, NotMaster) as error:
            silent[broker.broker_name] = str(error)
            continue
        topic = info.topic(TRACE_TOPIC)
        for queue_id, offsets in enumerate(() if topic is None else topic.ranges):
            queue = MessageQueue(TRACE_TOPIC, broker.broker_name, queue_id)
            queues.append(_TraceQueue(queue, offsets.min_offset, offsets.max_offset))
    return queues


async def _pull_all(admin: Admin, queues: list[_TraceQueue], silent: dict[str, str]) -> AsyncIterator[Event]:
    """Read every queue to its end, always the one that is furthest behind: so events come nearly in order."""
    while behind := [queue for queue in queues if queue.offset < queue.end]:
        queue = min(behind, key=lambda each: each.newest_ms)
        try:
            messages, following = await admin.read_queue(queue.queue, offset=queue.offset, max_n=MAX_PULL_BATCH)
        except (NetworkError, NotMaster) as error:
            silent[queue.queue.broker_name] = str(error)
            queue.offset = queue.end
            continue
        queue.offset = following if following > queue.offset else queue.end
        for message, _ in messages:
            queue.newest_ms = max(queue.newest_ms, float(message.stored_ms))
            for event in parse_events(message.body.splitlines(), lambda bad: None):  # anybody may send to the topic
                yield event


async def feed_trace(
    traces: list[Path],
    name_servers: str,
    take: Callable[[Event], object],
    skipped: SkippedLines,
    know: Callable[[Clocks], object] = lambda clocks: None,
) -> MissingTrace:
    """Pass every event of files, or without any of the topic, to a function, in order and with right times.

    `know` is called with the clocks before the first event. Returns the missing parts of the topic; of files, the
    parts of brokers that have no event there. Raises and cancellation: see `read_files` and `read_topic`.
    """
    if traces:
        brokers = SilentBrokers()
        for event in read_files(traces, skipped, know):
            brokers.add(event)
            take(event)
        return brokers.missing
    return await read_topic(name_servers, take, know)


def print_clocks(clocks: Clocks) -> None:
    """Print a note about each clock that was wrong."""
    for fault in clocks.faults:
        print_note(f"note: {clock_text(fault)}")


def print_missing(missing: MissingTrace) -> None:
    """Print the missing parts of a trace, below the result of the rest; parts that may be missing are a note."""
    if missing:
        print_line(f"incomplete: {missing}")
    if missing.limit:
        print_note(f"note: {missing.limit}")
