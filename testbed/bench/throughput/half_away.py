"""half-away: sends of one producer while one of two brokers is stopped (SIGSTOP) and the other works.

The connections of a stopped process stay open, so only the missing answers show it to the producer. Every send goes
to any queue, without a key; none may fail, and the sends that waited for the stopped broker are the slow ones.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

import anyio

from client import Message, Producer
from client.admin.admin import Admin
from model.errors import RlabError
from remoting.tasks import run_together
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import broker_process, create_topics, name_server_process, temporary_folder
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, percentile

QUEUES = 4
IN_FLIGHT = 64
SENDS = 1_000
_BEFORE, _POLL_S = 200, 0.05


async def bench_half_away(sizes: Sizes, progress: Progress) -> list[Result]:
    """Stop one of two brokers after the first sends, and measure the sends after that."""
    async with (
        temporary_folder() as folder,
        name_server_process() as name_server,
        broker_process(name_server, folder / "a", "--name", "broker-a"),
        broker_process(name_server, folder / "b", "--name", "broker-b") as stopped,
    ):
        await create_topics(name_server, {TOPIC: QUEUES})
        async with Admin(name_server) as admin:
            # A producer that knew the queues of one broker only would notice nothing.
            while len((await admin.route(TOPIC)).brokers) < 2:  # noqa: ASYNC110
                await anyio.sleep(_POLL_S)
        async with Producer(name_server) as producer:
            progress("both brokers")
            await send_all(producer, _BEFORE, time.perf_counter)
            stopped.process.send_signal(signal.SIGSTOP)
            progress("one of them stopped")
            try:
                times_ms, errors = await send_all(producer, SENDS, time.perf_counter)
            finally:
                stopped.process.send_signal(signal.SIGCONT)
    return [
        Result(name="half-away-failed", value=len(errors), unit="sends", note=f"of {SENDS}"),
        Result(name="half-away-p99", value=percentile(times_ms, 0.99) if times_ms else math.inf, unit="ms"),
    ]


async def send_all(
    producer: Producer, sends: int, now: Callable[[], float], in_flight: int = IN_FLIGHT
) -> tuple[list[float], list[RlabError]]:
    """Send messages, some at the same time; returns the milliseconds of those stored, and the errors of the others.

    `now` is a clock in seconds.
    """
    times_ms: list[float] = []
    errors: list[RlabError] = []

    async def send(numbers: Iterator[int]) -> None:
        for _ in numbers:
            started = now()
            try:
                await producer.send(Message(TOPIC, BODY))
            except RlabError as error:
                errors.append(error)
            else:
                times_ms.append((now() - started) * 1000)

    left = iter(range(sends))
    await run_together([partial(send, left) for _ in range(in_flight)])
    return times_ms, errors
