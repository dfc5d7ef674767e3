"""Groups of consumers in this process, each with its own client instance, and the queues that they should own."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from client import ConsumeFrom, MessageExt, MessageQueue, PushConsumer
from client.admin.admin import Admin
from client.allocate import AllocateMessageQueueAveragely
from model.event_log import EventSink
from model.names import retry_topic
from model.topic_route import SortedQueues
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Progress, Round, Sizes

Listener = Callable[[Sequence[MessageExt]], Awaitable[None]]

Targets = dict[str, list[MessageQueue]]
"""Queues of each member, sorted, by client id."""

_AT_ONCE = 50


def make_consumer(name_server: str, group: str, number: int, note: EventSink, **options: Any) -> PushConsumer:
    """Make a consumer whose client id sorts by its number."""
    return PushConsumer(name_server, group, instance_name=f"{group}-{number:05d}", event_sink=note, **options)


async def ignore(messages: Sequence[MessageExt]) -> None:
    """A listener that does nothing."""


def _ignoring(consumer: PushConsumer) -> Listener:
    return ignore


@asynccontextmanager
async def running(
    consumers: Sequence[PushConsumer], listener_of: Callable[[PushConsumer], Listener] = _ignoring
) -> AsyncIterator[None]:
    """Run consumers of `TOPIC` while the block runs; up to 50 are started and stopped at the same time.

    Raises:
        ExceptionGroup: some could not start.

    Cancellation: all of them are shut down.
    """
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def start(consumer: PushConsumer) -> None:
        async with limiter:
            await consumer.start()
            await consumer.subscribe(TOPIC, listener_of(consumer))

    async def stop(consumer: PushConsumer) -> None:
        async with limiter:
            await consumer.shutdown()

    try:
        async with anyio.create_task_group() as tasks:
            for consumer in consumers:
                tasks.start_soon(start, consumer)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for consumer in consumers:
                    tasks.start_soon(stop, consumer)


async def group_queues(name_server: str, group: str) -> dict[str, SortedQueues]:
    """Queues that a group reads, by topic: `TOPIC` and the retry topic of the group."""
    async with Admin(name_server) as admin:
        return {topic: (await admin.route(topic)).subscribe_queues() for topic in (TOPIC, retry_topic(group))}


def targets(group: str, client_ids: Iterable[str], queues: Mapping[str, Sequence[MessageQueue]]) -> Targets:
    """Compute the target of every member of a group."""
    members = sorted(client_ids)
    strategy = AllocateMessageQueueAveragely()
    return {
        member: sorted(
            queue for of_topic in queues.values() for queue in strategy.allocate(group, member, of_topic, members)
        )
        for member in members
    }


async def consume_for(
    seconds: float, name_server: str, group: str, topic: str, count: int, *, listener_s: float = 0.0, **options: Any
) -> float:
    """Consume a topic from its first message; returns messages per second, measured from the first one on.

    It ends after `seconds`, or with message number `count`, the last of the topic. The group has to be new, and the
    listener waits `listener_s` with each message.
    """
    seen = 0
    began, finished = anyio.Event(), anyio.Event()

    async def listener(messages: Sequence[MessageExt]) -> None:
        nonlocal seen
        began.set()
        if listener_s:
            await anyio.sleep(listener_s)
        seen += len(messages)
        if seen == count:
            finished.set()

    async with PushConsumer(name_server, group, consume_from=ConsumeFrom.FIRST_OFFSET, **options) as consumer:
        await consumer.subscribe(topic, listener)
        await began.wait()
        seen_before, started = seen, time.perf_counter()
        with anyio.move_on_after(seconds):
            await finished.wait()
        return (seen - seen_before) / (time.perf_counter() - started)


def consuming(
    label: str, name_server: str, topic: str, count: int, sizes: Sizes, progress: Progress, **options: Any
) -> Round:
    """A round of `consume_for`, each time in a new group; `label` names the groups and the step."""
    rounds = itertools.count(1)

    async def run() -> float:
        progress(label)
        return await consume_for(sizes.seconds, name_server, f"{label}-{next(rounds)}", topic, count, **options)

    return run
