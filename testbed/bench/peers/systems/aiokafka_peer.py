"""Kafka with aiokafka: awaited sends, `async for` by message, `getmany` by batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from testbed.bench.peers.systems.kafka_server import SETTINGS, kafka_process
from testbed.bench.peers.systems.protocol import QUEUES, Sender, Settings, Take

# A new partition has no leader for a moment: the client warns of each send that it repeats because of that.
logging.getLogger("aiokafka").setLevel(logging.ERROR)

_COMMIT_MS = 1_000
_POLL_MS = 1_000
_FILL_BATCH = 56
"""Messages in a batch of a partition: what the client's default of 16 KiB holds of 256 bytes each."""


class _Sender:
    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._next = 0

    async def send(self, body: bytes) -> None:
        await self._producer.send_and_wait(self._topic, body)

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        batch = self._producer.create_batch()
        for body in bodies:
            batch.append(key=None, value=body, timestamp=None)
        self._next += 1
        await (await self._producer.send_batch(batch, self._topic, partition=self._next % QUEUES))


class AioKafka:
    """One topic of `QUEUES` partitions."""

    name = "aiokafka"
    server = "kafka"
    modules = ("aiokafka",)
    programs = ("java",)
    measurements = frozenset({"send-1", "send-64", "batches-32", "consume", "consume-32", "latency"})
    settings = Settings(
        server=SETTINGS,
        client="aiokafka with its Cython records, acks 1, linger 0; batches are one batch of one partition; "
        f"async for and getmany(max_records=32), automatic commit each {_COMMIT_MS} ms",
    )

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        """See `System`."""
        async with kafka_process(folder) as address:
            yield address

    async def create(self, address: str, topic: str) -> None:
        """See `System`."""
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, QUEUES, 1)])
            # Until every partition has its leader; sends are refused before that, and repeated with a pause.
            while not all(part["leader"] >= 0 for part in await self._partitions(admin, topic)):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        finally:
            await admin.close()

    @staticmethod
    async def _partitions(admin: Any, topic: str) -> list[dict[str, Any]]:
        (described,) = await admin.describe_topics([topic])
        return described["partitions"] or [{"leader": -1}]

    @asynccontextmanager
    async def _producer(self, address: str) -> AsyncIterator[Any]:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=address, acks=1, linger_ms=0)
        await producer.start()
        try:
            yield producer
        finally:
            with anyio.CancelScope(shield=True):
                await producer.stop()

    @asynccontextmanager
    async def sender(self, address: str, topic: str) -> AsyncIterator[Sender]:
        """See `System`."""
        async with self._producer(address) as producer:
            yield _Sender(producer, topic)

    async def fill(self, address: str, topic: str, body: bytes, count: int) -> None:
        """See `System`."""
        async with self._producer(address) as producer:
            sender = _Sender(producer, topic)

            async def fill_some(share: int) -> None:
                for begin in range(0, share, _FILL_BATCH):
                    await sender.send_batch([body] * min(_FILL_BATCH, share - begin))

            await asyncio.gather(*[fill_some(count // QUEUES) for _ in range(QUEUES)])

    async def consume(self, address: str, topic: str, group: str, batch: int, take: Take) -> None:
        """See `System`."""
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=True,
            auto_commit_interval_ms=_COMMIT_MS,
        )
        await consumer.start()
        try:
            if batch == 1:
                async for record in consumer:
                    take((record.value,))
            while True:
                records = await consumer.getmany(timeout_ms=_POLL_MS, max_records=batch)
                for of_partition in records.values():
                    take([record.value for record in of_partition])
        finally:
            with anyio.CancelScope(shield=True):
                await consumer.stop()
