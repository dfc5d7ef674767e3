"""Kafka with confluent-kafka, a wrapper of a C library that has its own threads: measured, but not in the goals."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from testbed.bench.peers.systems.aiokafka_peer import AioKafka
from testbed.bench.peers.systems.kafka_server import SETTINGS, kafka_process
from testbed.bench.peers.systems.protocol import QUEUES, Sender, Settings, Take

_COMMIT_MS = 1_000
_POLL_S = 0.1


class _Sender:
    """Sends in a thread that polls for the reports; a send is awaited on the loop."""

    def __init__(self, producer: Any, topic: str, loop: asyncio.AbstractEventLoop) -> None:
        self._producer = producer
        self._topic = topic
        self._loop = loop

    async def send(self, body: bytes) -> None:
        done: asyncio.Future[None] = self._loop.create_future()

        def report(error: Any, message: Any) -> None:
            self._loop.call_soon_threadsafe(_complete, done, error)

        self._producer.produce(self._topic, body, on_delivery=report)
        await done

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        await asyncio.gather(*[self.send(body) for body in bodies])


def _complete(done: asyncio.Future[None], error: Any) -> None:
    if not done.done():
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(ConnectionError(str(error)))


class ConfluentKafka:
    """One topic of `QUEUES` partitions."""

    name = "confluent-kafka"
    server = "kafka"
    modules = ("confluent_kafka",)
    programs = ("java",)
    measurements = frozenset({"send-1", "send-64", "consume", "consume-32"})
    settings = Settings(
        server=SETTINGS,
        client=f"confluent-kafka (librdkafka), acks 1, linger 0, {QUEUES} partitions; its polls in a thread; "
        f"poll and consume(32), automatic commit each {_COMMIT_MS} ms",
    )

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        """See `System`."""
        async with kafka_process(folder) as address:
            yield address

    async def create(self, address: str, topic: str) -> None:
        """See `System`."""
        await AioKafka().create(address, topic)

    @asynccontextmanager
    async def sender(self, address: str, topic: str) -> AsyncIterator[Sender]:
        """See `System`."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": address, "acks": 1, "linger.ms": 0})
        async with _in_thread(lambda: producer.poll(_POLL_S)):
            yield _Sender(producer, topic, asyncio.get_running_loop())

    async def fill(self, address: str, topic: str, body: bytes, count: int) -> None:
        """See `System`."""
        await AioKafka().fill(address, topic, body, count)

    async def consume(self, address: str, topic: str, group: str, batch: int, take: Take) -> None:
        """See `System`."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": _COMMIT_MS,
            }
        )
        consumer.subscribe([topic])

        def one() -> None:
            message = consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                take((message.value(),))

        def many() -> None:
            messages = [each for each in consumer.consume(batch, _POLL_S) if each.error() is None]
            if messages:
                take([message.value() for message in messages])

        try:
            async with _in_thread(one if batch == 1 else many):
                await anyio.sleep_forever()
        finally:
            consumer.close()


@asynccontextmanager
async def _in_thread(work: Callable[[], object]) -> AsyncIterator[None]:
    """Repeat some work in a thread while the block runs."""
    stopping = threading.Event()

    def repeat() -> None:
        while not stopping.is_set():
            work()

    thread = threading.Thread(target=repeat, name="bench of confluent-kafka", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
