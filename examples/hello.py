"""A whole cluster in one process: a name server, a broker, a producer and a consumer, on real sockets.

    python examples/hello.py

It needs nothing else and leaves nothing behind: it uses free ports and a temporary data directory. The last line shows
how many messages were sent and received.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from rlab.broker.broker import run_broker
from rlab.broker.config import BrokerConfig
from rlab.client import ConsumeFrom, Message, MessageExt, Producer, PushConsumer
from rlab.client.admin.admin import Admin
from rlab.namesrv.config import NameServerConfig
from rlab.namesrv.server import run_name_server

MESSAGES = 10


@asynccontextmanager
async def cluster(data_dir: Path) -> AsyncIterator[str]:
    """Run one name server and one broker, with a topic; yields the address that clients need."""
    async with run_name_server(NameServerConfig(listen="127.0.0.1:0")) as name_server:
        config = BrokerConfig(
            name="broker-a", data_dir=data_dir, listen="127.0.0.1:0", name_servers=(name_server.address,)
        )
        async with run_broker(config), Admin(name_server.address) as admin:
            while not await admin.brokers():  # a broker listens first, and registers a moment later
                await anyio.sleep(0.01)
            await admin.create_topic("greetings", queues=4)
            yield name_server.address


async def main() -> None:
    """Send some messages and wait until all of them are received."""
    received: list[str] = []
    everything = anyio.Event()

    async def on_messages(messages: Sequence[MessageExt]) -> None:
        for message in messages:
            print(f"{message.queue} offset {message.offset}: {message.body.decode()}")
            received.append(message.message_id)
        if len(received) == MESSAGES:
            everything.set()

    with tempfile.TemporaryDirectory() as directory:
        async with (
            cluster(Path(directory)) as name_server,
            PushConsumer(name_server, group="hello", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer,
            Producer(name_server) as producer,
        ):
            await consumer.subscribe("greetings", on_messages)
            sent = [await producer.send(Message("greetings", f"hello {number}".encode())) for number in range(MESSAGES)]
            await everything.wait()
    assert sorted(received) == sorted(result.message_id for result in sent)
    print(f"sent {len(sent)}, received {len(received)}")


if __name__ == "__main__":
    anyio.run(main)
