"""rebalance-lab as one of the systems that the benchmark compares: it implements `System` with our own client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from client import ConsumeFrom, Message, MessageExt, Producer, PushConsumer
from testbed.bench.kit.processes import broker_process, create_topics, name_server_process
from testbed.bench.peers.systems.protocol import OURS, QUEUES, Sender, Settings, Take

_FILL_BATCH = 512


class _Sender:
    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def send(self, body: bytes) -> None:
        await self._producer.send(Message(self._topic, body))

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        topic = self._topic
        await self._producer.send_batch([Message(topic, body) for body in bodies])


class Ours:
    """A name server and a broker, a `Producer` and a `PushConsumer`."""

    name = OURS
    server = OURS
    modules = ()
    programs = ()
    measurements = frozenset({"send-1", "send-64", "batches-32", "consume", "consume-32", "latency"})
    settings = Settings(
        server=f"one broker, {QUEUES} queues, flush async: written to the file before the answer, fsync each 0.2 s",
        client="Producer, PushConsumer with its defaults, consume_batch 1 or 32, commits with its pulls",
    )

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        """Run a name server and a broker; see `System`."""
        async with name_server_process() as name_server, broker_process(name_server, folder):
            yield name_server

    async def create(self, address: str, topic: str) -> None:
        """See `System`."""
        await create_topics(address, {topic: QUEUES})

    @asynccontextmanager
    async def sender(self, address: str, topic: str) -> AsyncIterator[Sender]:
        """See `System`."""
        async with Producer(address) as producer:
            yield _Sender(producer, topic)

    async def fill(self, address: str, topic: str, body: bytes, count: int) -> None:
        """See `System`."""
        async with Producer(address) as producer:
            for begin in range(0, count, _FILL_BATCH):
                await producer.send_batch([Message(topic, body)] * min(_FILL_BATCH, count - begin))

    async def consume(self, address: str, topic: str, group: str, batch: int, take: Take) -> None:
        """See `System`."""

        async def on_message(messages: Sequence[MessageExt]) -> None:
            take((messages[0].body,))

        async def on_messages(messages: Sequence[MessageExt]) -> None:
            take([message.body for message in messages])

        async with PushConsumer(address, group, consume_from=ConsumeFrom.FIRST_OFFSET, consume_batch=batch) as consumer:
            await consumer.subscribe(topic, on_message if batch == 1 else on_messages)
            await anyio.sleep_forever()
