"""store-memory: what a broker that stores much more than it may keep in memory takes of it. Only by name.

2 GiB are stored and read back from the first message by one consumer. Measured is the most resident memory the broker
has had until then, and what it has open at the end. What the bound is made of: `broker/store/store_options.py`, and the
interpreter with the broker's code, which is what the broker takes before the first message.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from cli.bench.echo import TOPIC
from cli.bench.filling import fill_topic
from cli.bench.processes import cluster_processes, open_descriptors, peak_rss_bytes, rss_bytes
from cli.bench.report import Result
from cli.bench.rounds import MIB, Progress, Sizes
from cli.bench.send import QUEUES
from client import ConsumeFrom, MessageExt, PushConsumer

BODY = bytes(4096)
_TOLD_EVERY = 10_000


async def bench_store_memory(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory and descriptors.

    Raises:
        RlabError: the cluster did not start, or a request failed.

    Cancellation: every process is stopped and the files are removed.
    """
    count = max(1, sizes.stored_bytes // len(BODY))
    async with cluster_processes({TOPIC: QUEUES}) as cluster:
        before = await rss_bytes(cluster.broker)
        await fill_topic(cluster.name_server, BODY, count, progress)
        filled = await peak_rss_bytes(cluster.broker)
        open_before = await open_descriptors(cluster.broker)
        await read_all(cluster.name_server, count, progress)
        peak = await peak_rss_bytes(cluster.broker)
        open_after = await open_descriptors(cluster.broker)
    results = [
        Result(name="store-memory-start", value=before / MIB, unit="MiB"),
        Result(name="store-memory-filled", value=filled / MIB, unit="MiB"),
        Result(name="store-memory", value=peak / MIB, unit="MiB"),
    ]
    if open_before is not None and open_after is not None:
        results.append(
            Result(
                name="store-descriptors",
                value=open_after,
                unit="files",
                baseline_value=open_before,
                ratio=open_after / open_before,
            )
        )
    return results


async def read_all(name_server: str, count: int, progress: Progress) -> None:
    """Consume `count` messages, all there are, from the first.

    Cancellation: harmless.
    """
    seen = 0
    finished = anyio.Event()

    async def listener(messages: Sequence[MessageExt]) -> None:
        nonlocal seen
        if seen // _TOLD_EVERY != (seen + len(messages)) // _TOLD_EVERY:
            progress(f"reading: {seen:,} of {count:,} messages")
        seen += len(messages)
        if seen == count:
            finished.set()

    async with PushConsumer(name_server, "bench", consume_batch=32, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe(TOPIC, listener)
        await finished.wait()
