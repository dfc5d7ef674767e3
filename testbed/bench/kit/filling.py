"""Fills a topic before a measurement, with several batches outstanding at a time."""

from __future__ import annotations

import anyio

from client import Message, Producer
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Progress

_AT_ONCE = 4
_BATCH_MESSAGES = 512
_BATCH_BYTES = 1024 * 1024
_REPORTS = 100
"""Number of progress reports."""


async def fill_topic(name_server: str, body: bytes, count: int, progress: Progress, topic: str = TOPIC) -> None:
    """Send messages to the queues of a topic, round robin."""
    size = max(1, min(_BATCH_MESSAGES, _BATCH_BYTES // len(body)))
    message = Message(topic, body)
    left = count
    reported = count + 1

    async def work() -> None:
        nonlocal left, reported
        while left:
            batch = [message] * min(size, left)
            left -= len(batch)
            await producer.send_batch(batch)
            if left <= reported - count / _REPORTS:
                reported = left
                progress(f"filling: {count - left:,} of {count:,} messages")

    async with Producer(name_server, timeout_s=30.0) as producer, anyio.create_task_group() as tasks:
        for _ in range(_AT_ONCE):
            tasks.start_soon(work)
