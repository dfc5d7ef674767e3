"""Reads the events of a trace without Spark: from JSON Lines, or from the topic SYS_TRACE of a running cluster."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio

from client.admin.admin import Admin
from client.admin.requests import pull_once
from figures.history.reading import BadLine, Sorter, events_of, in_order
from figures.records import order_of
from model.errors import ConfigError, TopicNotExist
from model.events import Event
from model.limits import MAX_EVENTS_PER_READ, MAX_PULL_BATCH
from model.message_queue import MessageQueue
from model.names import TRACE_TOPIC
from remoting.client import RemotingClient

STDIN = Path("-")
READ_BYTES = 64 * 1024
"""So much of a file is decoded together."""
FOLLOW_S = 0.5
"""How often a trace that is followed is asked for more; nodes send theirs once a second."""
SETTLE_MS = 2_500.0
"""How old an event is before it is shown while a trace grows: by then the others of its moment have come."""
_READER = "trace-reader"


@dataclass(slots=True)
class Skipped:
    """Lines of a trace that are no events."""

    n: int = 0
    first: str = ""

    def take(self, error: BadLine) -> None:
        """Count one."""
        self.n += 1
        self.first = self.first or str(error)


def read_files(paths: list[Path], skipped: Skipped) -> Iterator[Event]:
    """Read JSON Lines files in order, `-` is standard input; several files are one history.

    Raises:
        ConfigError: there is no such file, or it has no event.
        OSError: it cannot be read.
    """
    for path in paths:
        if path != STDIN and not path.is_file():
            raise ConfigError(f"there is no trace {path}: name a file of JSON Lines, or - for standard input")
    events = _merged(paths, skipped) if len(paths) > 1 else _lines_of(paths[0], skipped)
    n = 0
    for event in in_order(events):
        n += 1
        yield event
    if not n:
        what = f": {skipped.first}" if skipped.n else ""
        raise ConfigError(f"{', '.join(map(str, paths))} has no events{what}")


def _merged(paths: list[Path], skipped: Skipped) -> Iterator[Event]:
    """The files side by side, each as far as the others: they are of one cluster and one time."""
    streams = {number: _lines_of(path, skipped) for number, path in enumerate(paths)}
    heads = {number: event for number, stream in streams.items() if (event := next(stream, None)) is not None}
    while heads:
        number = min(heads, key=lambda each: heads[each].t_ms)
        yield heads.pop(number)
        following = next(streams[number], None)
        if following is not None:
            heads[number] = following


def _lines_of(path: Path, skipped: Skipped) -> Iterator[Event]:
    with sys.stdin.buffer if path == STDIN else path.open("rb") as file:
        while lines := file.readlines(READ_BYTES):
            yield from events_of(lines, skipped.take)


async def check_trace(admin: Admin) -> None:
    """Check that some broker keeps a trace.

    Raises:
        TopicNotExist: none does.
        RlabError: the cluster does not answer.

    Cancellation: harmless.
    """
    try:
        await admin.route(TRACE_TOPIC)
    except TopicNotExist as error:
        raise TopicNotExist(f"{error}: its brokers keep no trace, or were started with --no-trace-topic") from error


async def read_topic(name_servers: str) -> AsyncIterator[Event]:
    """Read what SYS_TRACE has now, in order. Raises: see `check_trace`. Cancellation: harmless."""
    async with Admin(name_servers) as admin, RemotingClient() as remoting:
        await check_trace(admin)
        sorter = Sorter()
        async for event in _pull_all(remoting, await _queues(admin)):
            for due in sorter.take(event):
                yield due
        for due in sorter.rest():
            yield due


async def follow_topic(admin: Admin, since_ms: float) -> AsyncIterator[tuple[float, list[Event]]]:
    """Read what SYS_TRACE has since a time, and then what comes, in order, until it is closed.

    The first list is all that is there, and those after it are what has come since, each with the time up to which the
    events are known. Raises: see `TraceReader.read`. Cancellation: harmless.
    """
    loop, reader, sorter, ahead_ms = asyncio.get_running_loop(), admin.trace(since_ms), Sorter(), -math.inf
    found = more = await reader.read()
    while len(more) >= MAX_EVENTS_PER_READ:  # not until nothing comes: on a busy trace, something always does
        more = await reader.read()
        found += more
    yield -math.inf, sorted(found, key=order_of)
    while True:
        await anyio.sleep(FOLLOW_S)
        now_ms = loop.time() * 1000
        due: list[Event] = []
        for event in await reader.read():
            ahead_ms = max(ahead_ms, event.t_ms - now_ms)
            due += sorter.take(event)
        known_ms = now_ms + ahead_ms - SETTLE_MS
        yield known_ms, due + sorter.older_than(known_ms)


@dataclass(slots=True)
class _TraceQueue:
    """One queue of the topic, and how far it was read."""

    queue: MessageQueue
    address: str
    offset: int
    end: int
    newest_ms: float = 0.0


async def _queues(admin: Admin) -> list[_TraceQueue]:
    found = []
    for broker in await admin.brokers():
        info = await admin.broker_info(broker.broker_name)
        topic = info.topic(TRACE_TOPIC)
        for queue_id, offsets in enumerate(() if topic is None else topic.ranges):
            queue = MessageQueue(TRACE_TOPIC, broker.broker_name, queue_id)
            found.append(_TraceQueue(queue, info.address, offsets.min_offset, offsets.max_offset))
    return found


async def _pull_all(remoting: RemotingClient, queues: list[_TraceQueue]) -> AsyncIterator[Event]:
    """Read every queue to its end, always the one that is furthest behind: so events come nearly in order."""
    while behind := [queue for queue in queues if queue.offset < queue.end]:
        queue = min(behind, key=lambda each: each.newest_ms)
        messages, following = await pull_once(
            remoting, queue.address, _READER, queue.queue, queue.offset, MAX_PULL_BATCH
        )
        queue.offset = following if following > queue.offset else queue.end
        for message, _ in messages:
            queue.newest_ms = max(queue.newest_ms, float(message.stored_ms))
            for event in events_of(message.body.splitlines(), lambda bad: None):  # anybody may send to the topic
                yield event


async def feed_trace(traces: list[Path], name_servers: str, take: Callable[[Event], object], skipped: Skipped) -> None:
    """Pass every event of files, or without any of the topic, to a function, in order.

    Raises and cancellation: see `read_files` and `read_topic`.
    """
    if traces:
        for event in read_files(traces, skipped):
            take(event)
        return
    async for event in read_topic(name_servers):
        take(event)
