"""store-memory: memory of a broker that stores much more than its memory budgets. Run only by name.

2 GiB are stored and read back from the first message by one consumer.

    store-memory        peak resident memory of the broker, against its limit: the memory before the first message,
                        which is the interpreter and its code, and the budgets of `StoreOptions`
    store-descriptors   files open at the end, against those open before the reads and the files it may keep open
"""

from __future__ import annotations

import math

from broker.store.disk.options import StoreOptions
from broker.store.segments.index import ENTRY_BYTES
from testbed.bench.kit.consumers import consume_for
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.bench.kit.processes import cluster_processes, open_descriptors, peak_rss_bytes, rss_bytes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import MIB, Progress, Sizes
from testbed.bench.throughput.send import QUEUES

BODY = bytes(4096)
_CLOSING = 4
"""Connections of the consumer that may not be closed yet."""


async def bench_store_memory(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory and descriptors."""
    count = max(1, sizes.stored_bytes // len(BODY))
    async with cluster_processes({TOPIC: QUEUES}) as cluster:
        rss_before = await rss_bytes(cluster.broker)
        await fill_topic(cluster.name_server, BODY, count, progress)
        open_before = await open_descriptors(cluster.broker)
        progress("reading them")
        await consume_for(math.inf, cluster.name_server, "bench", TOPIC, count, consume_batch=32)
        peak = await peak_rss_bytes(cluster.broker)
        open_after = await open_descriptors(cluster.broker)
    results = [_against("store-memory", peak / MIB, (rss_before + budget_bytes(StoreOptions())) / MIB, "MiB")]
    if open_before is not None and open_after is not None:
        limit = open_before + StoreOptions().open_files + _CLOSING
        results.append(_against("store-descriptors", open_after, limit, "files"))
    return results


def budget_bytes(options: StoreOptions) -> int:
    """Memory that a store may use for messages, however many there are."""
    return options.tail_bytes + options.index_cache_bytes + options.segment_records * ENTRY_BYTES


def _against(name: str, value: float, limit: float, unit: str) -> Result:
    return Result(name=name, value=value, unit=unit, baseline_value=limit, ratio=value / limit)
