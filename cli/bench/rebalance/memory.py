"""memory-idle-consumer and consumers-2000: memory that connected consumers without messages cost a broker.

Each is a client of its own, a member of one of twenty groups, with a connection, a lease and a held pull. The broker's
resident memory is read before the first and after the last. Tracing is off: events are messages, of which a
broker keeps the newest in memory within a budget of its own (`StoreOptions.tail_bytes`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from cli.bench.kit.consumers import Targets, consumer_of, queues_of, running, targets
from cli.bench.kit.convergence import ConvergenceWatch
from cli.bench.kit.echo import TOPIC
from cli.bench.kit.processes import cluster_processes, rss_bytes
from cli.bench.kit.report import Result
from cli.bench.kit.rounds import Progress, Sizes

GROUPS = 20
_CONVERGE_S = 300.0
_SETTLE_S = 1.0
"""Time for pending answers and first pulls to arrive after the group has converged."""


async def bench_memory(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory."""
    members = max(1, sizes.idle // GROUPS)
    async with cluster_processes({TOPIC: members}, "--no-trace-topic") as cluster:
        before = await rss_bytes(cluster.broker)
        started = time.perf_counter()
        async with idle_groups(cluster.name_server, members, progress) as converged_at:
            await anyio.sleep(_SETTLE_S)
            after = await rss_bytes(cluster.broker)
    consumers = GROUPS * members
    return [
        Result(name="memory-idle-consumer", value=(after - before) / consumers / 1024, unit="KiB"),
        Result(name="consumers-2000", value=converged_at - started, unit="s"),
    ]


@asynccontextmanager
async def idle_groups(name_server: str, members: int, progress: Progress) -> AsyncIterator[float]:
    """Run `GROUPS` groups of `TOPIC` while the block runs; yields `time.perf_counter()` when all had converged."""
    watch = ConvergenceWatch()
    groups = {
        group: [consumer_of(name_server, group, number, watch.note, trace=False) for number in range(members)]
        for group in (f"bench-{number:02d}" for number in range(GROUPS))
    }
    progress(f"starting {GROUPS} groups of {members} consumers")
    async with running([consumer for consumers in groups.values() for consumer in consumers]):
        expected: Targets = {}
        for group, consumers in groups.items():
            queues = await queues_of(name_server, group)
            expected |= targets(group, [consumer.client_id for consumer in consumers], queues)
        watch.expect(expected)
        progress("waiting until they have converged")
        yield await watch.wait_converged(_CONVERGE_S)
        progress("stopping them")
