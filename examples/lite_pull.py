"""Lite pull consumer: poll, pause, commit, and seek to the beginning of a queue.

    python examples/lite_pull.py

A member of a group polls the queues assigned to it. The messages of a poll count as processed at the next poll, so the
last ones need a commit. Then another consumer assigns one queue to itself, without a group, and seeks back in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from rlab.broker.broker import run_broker
from rlab.broker.config import BrokerConfig
from rlab.client import Admin, ConsumeFrom, LitePullConsumer, Message, MessageQueue, Producer
from rlab.namesrv.config import NameServerConfig
from rlab.namesrv.server import run_name_server

TOPIC, MESSAGES = "greetings", 12


@asynccontextmanager
async def cluster(data_dir: Path) -> AsyncIterator[str]:
    """Run one name server and one broker, with a topic; yields the address that clients need."""
    async with run_name_server(NameServerConfig(listen="127.0.0.1:0")) as name_server:
        servers = (name_server.address,)
        config = BrokerConfig(name="broker-a", data_dir=data_dir, listen="127.0.0.1:0", name_servers=servers)
        async with run_broker(config), Admin(name_server.address) as admin:
            while not await admin.brokers():  # a broker listens first, and registers a moment later
                await anyio.sleep(0.01)
            await admin.create_topic(TOPIC, queues=4)
            yield name_server.address


async def member(name_server: str) -> int:
    """Poll as a member of a group until there are no messages; returns the number of messages."""
    first = ConsumeFrom.FIRST_OFFSET
    async with LitePullConsumer(name_server, group="polling", consume_from=first, poll_batch=5) as consumer:
        await consumer.subscribe(TOPIC)
        count = 0
        while messages := await consumer.poll(timeout_s=1):
            count += len(messages)
            print(f"a poll: {', '.join(f'{message.queue}+{message.offset}' for message in messages)}")
        await consumer.commit()
        queue = consumer.assignment()[0]
        print(f"committed on {queue}: {await consumer.committed(queue)}")
        return count


async def reader(name_server: str, queue: MessageQueue) -> int:
    """Read one queue twice, independently of other consumers; returns the number of messages."""
    async with LitePullConsumer(name_server, group="reading", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.assign([queue])
        first = await consumer.poll()
        consumer.pause([queue])
        assert await consumer.poll(timeout_s=0.2) == [], "a paused queue delivers nothing"
        consumer.resume([queue])
        await consumer.seek_to_begin(queue)
        second = await consumer.poll()
        print(f"read {queue} twice: {[message.body.decode() for message in second]}")
        return len(first) + len(second)


async def main() -> None:
    """Send some messages and read them with both kinds of consumers."""
    with tempfile.TemporaryDirectory() as directory:
        async with cluster(Path(directory)) as name_server:
            async with Producer(name_server) as producer:
                sent = [await producer.send(Message(TOPIC, f"hello {n}".encode())) for n in range(MESSAGES)]
            polled = await member(name_server)
            read = await reader(name_server, sent[0].queue)
    print(f"sent {len(sent)}, polled {polled}, read {read} of one queue")


if __name__ == "__main__":
    anyio.run(main)
