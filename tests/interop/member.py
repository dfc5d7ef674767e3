"""A member of a group, or a producer, of this project, for `tests/interop/run.py`; its log is that of `Member.java`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread

from client import (
    Admin,
    ConsumeFrom,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from model.errors import RlabError

pause = threading.Event().wait


async def consume(name_server: str, group: str, topic: str, order: str = "queue", name: str = "") -> None:
    """Consume, in the order of each queue unless it says otherwise, until standard input is closed.

    With a name, the client id is `127.0.0.1@` and that, as in `Member.java`.
    """

    def listen(messages: Sequence[MessageExt]) -> None:
        for message in messages:
            begin = time.time_ns()
            pause(0.001)
            queue = f"{message.queue.topic} {message.queue.broker_name} {message.queue.queue_id}"
            body = message.body.decode()
            sys.stdout.write(f"m {begin} {time.time_ns()} {queue} {message.offset} {body}\n")
            sys.stdout.flush()

    options: dict[str, Any] = {"instance_name": name, "client_ip": "127.0.0.1"} if name else {}
    options |= {"order": order, "consume_from": ConsumeFrom.FIRST_OFFSET}
    async with PushConsumer(name_server, group, **options) as consumer:
        await consumer.subscribe(topic, listen)
        sys.stdout.write(f"ready {time.time_ns()}\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


async def produce(name_server: str, topic: str, n: int, per_s: int) -> None:
    """Send numbered messages at a steady rate."""
    async with Producer(name_server) as producer:
        began = anyio.current_time()
        for number in range(n):
            await producer.send(Message(topic, str(number).encode()))
            if number % 50 == 0:
                await anyio.to_thread.run_sync(pause, max(0.0, began + number / per_s - anyio.current_time()))


async def steady(name_server: str, topic: str, queues: int, per_s: int) -> None:
    """Send to the queues in turns until input is closed, of which a line is a new number of queues.

    A line for each acknowledged message; what failed comes again under another number.
    """
    counts = [queues]

    def read() -> None:
        for line in sys.stdin:
            counts[0] = int(line)
        counts[0] = 0

    async with Producer(name_server) as producer, anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, read)
        number, due = 0, anyio.current_time()
        while counts[0]:
            number, due = number + 1, max(due + 1 / per_s, anyio.current_time() - 0.1)
            with suppress(RlabError):
                await producer.send(
                    Message(topic, str(number).encode()), queue=MessageQueue(topic, "broker-a", number % counts[0])
                )
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()
            if (early_s := due - anyio.current_time()) > 0.01:
                await anyio.to_thread.run_sync(pause, early_s)


async def watch(name_server: str, group: str) -> None:
    """Log how many queues each member owns, whenever that changes."""
    async with Admin(name_server) as admin:
        before: list[int] = []
        while True:
            with suppress(RlabError):
                queues = await admin.progress(group)
                owned = Counter(each.owner for each in queues if not each.queue.topic.startswith("%"))
                counts = sorted(n for owner, n in owned.items() if owner)
                if counts != before:
                    sys.stdout.write(f"o {time.time_ns()} {' '.join(map(str, counts))}\n")
                    sys.stdout.flush()
                before = counts
            await anyio.to_thread.run_sync(pause, 0.05)


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
        anyio.run(produce, server, others[0], int(others[1]), int(others[2]))
    elif kind == "steady":
        anyio.run(steady, server, others[0], int(others[1]), int(others[2]))
    elif kind == "watch":
        anyio.run(watch, server, others[0])
    else:
        anyio.run(lambda: consume(server, kind, *others))
