"""POP consumers: messages are delivered singly, so all members get work, and a slow one delays no other.

    python examples/pop.py

A topic has one queue and a group four members. In mode pull one of them would own the queue and get all messages. Here
each pops as many as it can process, one of them is twenty times slower, and a message that is not acknowledged is
redelivered after its invisible time. The last line shows how many messages were sent and how many each member
processed.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from rlab.broker.broker import run_broker
from rlab.broker.config import BrokerConfig
from rlab.client import ConsumeFrom, Message, MessageExt, PopConsumer, Producer, PushConsumer
from rlab.client.admin.admin import Admin
from rlab.namesrv.config import NameServerConfig
from rlab.namesrv.server import run_name_server

MESSAGES = 200
QUICK_S, SLOW_S = 0.01, 0.2


@asynccontextmanager
async def cluster(data_dir: Path) -> AsyncIterator[str]:
    """Run one name server and one broker, with a topic of one queue; yields the address that clients need."""
    async with run_name_server(NameServerConfig(listen="127.0.0.1:0")) as name_server:
        config = BrokerConfig(
            name="broker-a", data_dir=data_dir, listen="127.0.0.1:0", name_servers=(name_server.address,)
        )
        async with run_broker(config), Admin(name_server.address) as admin:
            while not await admin.brokers():  # a broker listens first, and registers a moment later
                await anyio.sleep(0.01)
            await admin.create_topic("orders", queues=1)
            yield name_server.address


async def consume_all(name_server: str) -> Counter[str]:
    """Consume all messages with four push consumers in mode pop; returns how many each has processed."""
    done: Counter[str] = Counter()
    everything = anyio.Event()

    def listener(name: str, takes_s: float) -> Callable[[Sequence[MessageExt]], Awaitable[None]]:
        async def on_messages(messages: Sequence[MessageExt]) -> None:
            await anyio.sleep(takes_s)
            done[name] += len(messages)
            if done.total() == MESSAGES:
                everything.set()

        return on_messages

    async with AsyncExitStack() as consumers:
        for name, takes_s in {"a": QUICK_S, "b": QUICK_S, "c": QUICK_S, "slow": SLOW_S}.items():
            consumer = PushConsumer(
                name_server,
                group="workers",
                mode="pop",
                max_workers=1,
                max_unacked=1,  # a slow member should not hold messages that others could process
                consume_from=ConsumeFrom.FIRST_OFFSET,
            )
            await consumers.enter_async_context(consumer)
            await consumer.subscribe("orders", listener(name, takes_s))
        await everything.wait()
    return done


async def drop_one(name_server: str) -> None:
    """Receive a message, do not acknowledge it, and receive it again after its invisible time."""
    async with PopConsumer(name_server, group="others", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe("orders")
        (dropped,) = await consumer.receive(1, invisible_s=0.5)
        print(f"received {dropped.body.decode()}, delivery {dropped.attempts}, and dropped it")
        while True:
            messages = await consumer.receive(invisible_s=60)
            await consumer.ack(messages)
            for message in messages:
                if message.offset == dropped.offset:
                    print(f"received {message.body.decode()} again, delivery {message.attempts}, and acknowledged it")
                    return


async def main() -> None:
    """Send messages, drop one, and consume all."""
    with tempfile.TemporaryDirectory() as directory:
        async with cluster(Path(directory)) as name_server:
            async with Producer(name_server) as producer:
                for number in range(MESSAGES):
                    await producer.send(Message("orders", f"order {number}".encode()))
            await drop_one(name_server)
            done = await consume_all(name_server)
    counts = ", ".join(f"{name} {n}" for name, n in sorted(done.items()))
    print(f"sent {MESSAGES}; done by {counts}")


if __name__ == "__main__":
    anyio.run(main)
