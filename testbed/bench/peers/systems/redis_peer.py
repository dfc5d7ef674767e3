"""Redis Streams with redis-py: XADD, and consumer groups with XREADGROUP and XACK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from testbed.bench.peers.systems.protocol import SENDERS, Sender, Settings, Take
from testbed.bench.peers.systems.server import server_process
from testbed.cluster.ports import free_port

_FIELD = b"b"
_BLOCK_MS = 1_000
_FILL_BATCH = 512


def _connect(address: str, connections: int) -> Any:
    import redis.asyncio as redis

    host, _, port = address.partition(":")
    pool = redis.BlockingConnectionPool(host=host, port=int(port), max_connections=connections, timeout=None)
    return redis.Redis.from_pool(pool)


class _Sender:
    def __init__(self, client: Any, topic: str) -> None:
        self._client = client
        self._topic = topic

    async def send(self, body: bytes) -> None:
        await self._client.xadd(self._topic, {_FIELD: body})

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        async with self._client.pipeline(transaction=False) as pipeline:
            for body in bodies:
                pipeline.xadd(self._topic, {_FIELD: body})
            await pipeline.execute()


class Redis:
    """One stream. Without partitions there is one order; a consumer group shares single messages."""

    name = "redis-py"
    server = "redis"
    modules = ("redis", "hiredis")
    programs = ("redis-server",)
    measurements = frozenset({"send-1", "send-64", "batches-32", "consume-32", "latency"})
    settings = Settings(
        server="one stream, appendonly yes, appendfsync everysec: written to the file before the answer, no snapshots",
        client=f"redis.asyncio with hiredis, up to {SENDERS} connections; batches are one pipeline; "
        "XREADGROUP COUNT 32 (latency: 512) and one XACK for each batch",
    )

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        """See `System`."""
        port = free_port()
        durability = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), *durability]
        async with server_process("redis-server", command, port, folder) as address:
            yield address

    async def create(self, address: str, topic: str) -> None:
        """A stream begins with its first message."""

    @asynccontextmanager
    async def sender(self, address: str, topic: str) -> AsyncIterator[Sender]:
        """See `System`."""
        async with _connect(address, SENDERS) as client:
            yield _Sender(client, topic)

    async def fill(self, address: str, topic: str, body: bytes, count: int) -> None:
        """See `System`."""
        async with _connect(address, 1) as client:
            for begin in range(0, count, _FILL_BATCH):
                await _Sender(client, topic).send_batch([body] * min(_FILL_BATCH, count - begin))

    async def consume(self, address: str, topic: str, group: str, batch: int, take: Take) -> None:
        """See `System`."""
        async with _connect(address, 2) as client:
            await client.xgroup_create(topic, group, id="0", mkstream=True)
            while True:
                answer = await client.xreadgroup(group, "c", {topic: ">"}, count=batch, block=_BLOCK_MS)
                for _, entries in answer or ():
                    take([fields[_FIELD] for _, fields in entries])
                    await client.xack(topic, group, *[number for number, _ in entries])
