"""A member of a group, or a producer, of this project, for `tests/interop/run.py`; its log is that of `Member.java`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence

import anyio
import anyio.to_thread

from client import ConsumeFrom, Message, MessageExt, Producer, PushConsumer, TransactionProducer, TransactionState

pause = threading.Event().wait


async def consume(name_server: str, group: str, topic: str) -> None:
    """Consume in the order of each queue until standard input is closed."""

    def listen(messages: Sequence[MessageExt]) -> None:
        for message in messages:
            begin = time.time_ns()
            pause(0.001)
            queue = f"{message.queue.topic} {message.queue.broker_name} {message.queue.queue_id}"
            body = message.body.decode()
            sys.stdout.write(f"m {begin} {time.time_ns()} {queue} {message.offset} {body}\n")
            sys.stdout.flush()

    async with PushConsumer(name_server, group, order="queue", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe(topic, listen)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


async def produce(name_server: str, topic: str, n: int) -> None:
    """Send numbered messages at a steady rate."""
    async with Producer(name_server) as producer:
        for number in range(n):
            await producer.send(Message(topic, str(number).encode()))
            if number % 20 == 0:
                await anyio.to_thread.run_sync(pause, 0.02)


async def transact(name_server: str, kind: str, group: str, topic: str) -> None:
    """`begin`: die in the local branch of a transaction; `answer`: say commit to every check until input is closed."""
    async with TransactionProducer(name_server, group, check=lambda message: TransactionState.COMMIT) as producer:
        if kind == "begin":
            async with producer.transaction(Message(topic, b"half")):
                os._exit(9)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    server, kind, *others = sys.argv[1:]
    if kind in ("begin", "answer"):
        anyio.run(transact, server, kind, others[0], others[1])
    elif kind == "produce":
        anyio.run(produce, server, others[0], int(others[1]))
    else:
        anyio.run(consume, server, kind, others[0])
