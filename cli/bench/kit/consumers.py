"""Groups of consumers in this process, each consumer a client of its own, with what they should own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from cli.bench.kit.echo import TOPIC
from cli.bench.kit.group_watch import GroupWatch
from client import MessageExt, MessageQueue, PushConsumer
from client.admin.admin import Admin
from client.allocate import AllocateMessageQueueAveragely
from model.names import retry_topic

Shares = dict[str, list[MessageQueue]]
"""What members own, sorted, by client id."""

_AT_ONCE = 50


def consumer_of(name_server: str, group: str, number: int, watch: GroupWatch, *, trace: bool = True) -> PushConsumer:
    """Make a consumer whose client id sorts by its number."""
    name = f"{group}-{number:05d}"
    return PushConsumer(name_server, group, instance_name=name, event_sink=watch.note, trace=trace)


async def ignore(messages: Sequence[MessageExt]) -> None:
    """A listener that does nothing."""


@asynccontextmanager
async def running(consumers: Sequence[PushConsumer]) -> AsyncIterator[None]:
    """Run consumers of `TOPIC` while the block runs; some are started and stopped at the same time.

    Raises:
        ExceptionGroup: some could not start.

    Cancellation: all of them are shut down.
    """
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def start(consumer: PushConsumer) -> None:
        async with limiter:
            await consumer.start()
            await consumer.subscribe(TOPIC, ignore)

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


async def queues_of(name_server: str, group: str) -> dict[str, list[MessageQueue]]:
    """Queues of what a group reads, by topic: `TOPIC` and the group's own retry topic."""
    async with Admin(name_server) as admin:
        return {topic: (await admin.route(topic)).subscribe_queues() for topic in (TOPIC, retry_topic(group))}


def shares(group: str, client_ids: Iterable[str], queues: Mapping[str, Sequence[MessageQueue]]) -> Shares:
    """Compute what every member of a group should own."""
    members = sorted(client_ids)
    strategy = AllocateMessageQueueAveragely()
    return {
        member: sorted(
            queue for of_topic in queues.values() for queue in strategy.allocate(group, member, of_topic, members)
        )
        for member in members
    }
