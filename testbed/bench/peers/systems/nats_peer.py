"""NATS JetStream with nats-py: a stream in files, and a durable consumer with explicit acknowledgements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from testbed.bench.peers.systems.protocol import Sender, Settings, Take
from testbed.bench.peers.systems.server import server_process
from testbed.cluster.ports import free_port

_FETCH_S = 1.0
_MAX_UNACKED = 4_096
_FILL_FLUSH = 4_096


@asynccontextmanager
async def _connect(address: str) -> AsyncIterator[Any]:
    import nats

    connection = await nats.connect(f"nats://{address}")
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


class _Sender:
    def __init__(self, stream: Any, topic: str) -> None:
        self._stream = stream
        self._topic = topic

    async def send(self, body: bytes) -> None:
        await self._stream.publish(self._topic, body)

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        stream, topic = self._stream, self._topic
        for future in [await stream.publish_async(topic, body) for body in bodies]:
            await future


class Nats:
    """One stream with one subject."""

    name = "nats-py"
    server = "nats"
    modules = ("nats",)
    programs = ("nats-server",)
    measurements = frozenset({"send-1", "send-64", "batches-32", "consume", "consume-32", "latency"})
    settings = Settings(
        server="JetStream, one stream in files, one replica, sync_interval by default (2 min)",
        client=f"batches are publish_async and their answers; a message: push consumer with a callback, up to "
        f"{_MAX_UNACKED} unacknowledged; batches: fetch(32); each message is acknowledged by itself",
    )

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        """See `System`."""
        port = free_port()
        command = ["nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
        async with server_process("nats-server", command, port, folder) as address:
            yield address

    async def create(self, address: str, topic: str) -> None:
        """See `System`."""
        async with _connect(address) as connection:
            await connection.jetstream().add_stream(name=topic, subjects=[topic])

    @asynccontextmanager
    async def sender(self, address: str, topic: str) -> AsyncIterator[Sender]:
        """See `System`."""
        async with _connect(address) as connection:
            yield _Sender(connection.jetstream(), topic)

    async def fill(self, address: str, topic: str, body: bytes, count: int) -> None:
        """Publish without waiting for each answer; ends when the stream has them all."""
        async with _connect(address) as connection:
            for number in range(count):
                await connection.publish(topic, body)
                if number % _FILL_FLUSH == 0:
                    await connection.flush()
            await connection.flush()
            stream = connection.jetstream()
            while (await stream.stream_info(topic)).state.messages < count:  # noqa: ASYNC110 - it has no notification
                await anyio.sleep(0.05)

    async def consume(self, address: str, topic: str, group: str, batch: int, take: Take) -> None:
        """See `System`."""
        async with _connect(address) as connection:
            stream = connection.jetstream(timeout=30.0)
            if batch == 1:
                from nats.js.api import ConsumerConfig

                async def on_message(message: Any) -> None:
                    take((message.data,))
                    await message.ack()

                config = ConsumerConfig(max_ack_pending=_MAX_UNACKED)
                await stream.subscribe(topic, durable=group, cb=on_message, manual_ack=True, config=config)
                await anyio.sleep_forever()
            subscription = await stream.pull_subscribe(topic, durable=group)
            while True:
                try:
                    messages = await subscription.fetch(batch, timeout=_FETCH_S)
                except TimeoutError:
                    continue
                take([message.data for message in messages])
                for message in messages:
                    await message.ack()
