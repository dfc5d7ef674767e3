"""memory-idle-consumer, consumers-2000 and crowd: the cost for a broker of connected consumers without messages.

Each is a client of its own, a member of one of twenty groups (of fifty in crowd), with a connection, a lease and a held
pull. The broker's resident memory is read before the first and after the last, and in crowd its CPU time while they do
nothing but heartbeats and timers. Tracing is off: events are messages, of which a broker keeps the newest in memory
within a budget of its own (`StoreOptions.tail_bytes`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from testbed.bench.kit.consumers import Targets, group_queues, make_consumer, running, targets
from testbed.bench.kit.convergence import ConvergenceWatch
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.processes import cluster_processes, cpu_s, rss_bytes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import MIB, Progress, Sizes

GROUPS = 20
CROWD_GROUPS = 50
_CONVERGE_S = 300.0
_SETTLE_S = 1.0
"""Time for pending answers and first pulls to arrive after the group has converged."""


async def bench_memory(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory."""
    members = max(1, sizes.idle // GROUPS)
    async with cluster_processes({TOPIC: members}, "--no-trace-topic") as cluster:
        rss_before = await rss_bytes(cluster.broker)
        started = time.perf_counter()
        async with idle_groups(cluster.name_server, members, progress) as converged_at:
            await anyio.sleep(_SETTLE_S)
            rss_after = await rss_bytes(cluster.broker)
    consumers = GROUPS * members
    return [
        Result(name="memory-idle-consumer", value=(rss_after - rss_before) / consumers / 1024, unit="KiB"),
        Result(name="consumers-2000", value=converged_at - started, unit="s"),
    ]


async def bench_crowd(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure the cost for a broker of thousands of idle consumers in fifty groups, with a queue each."""
    members = max(1, sizes.crowd // CROWD_GROUPS)
    async with cluster_processes({TOPIC: members}, "--no-trace-topic") as cluster:
        rss_before = await rss_bytes(cluster.broker)
        async with idle_groups(cluster.name_server, members, progress, CROWD_GROUPS):
            await anyio.sleep(_SETTLE_S)
            rss_after = await rss_bytes(cluster.broker)
            progress("leaving them alone")
            used, started = await cpu_s(cluster.broker), time.perf_counter()
            await anyio.sleep(sizes.crowd_s)
            used_after, passed_s = await cpu_s(cluster.broker), time.perf_counter() - started
    results = [
        Result(name="crowd-memory", value=(rss_after - rss_before) / MIB, unit="MiB", note="above the broker alone")
    ]
    if used is not None and used_after is not None:
        value = 100 * (used_after - used) / passed_s
        results.append(Result(name="crowd-cpu", value=value, unit="% of a core"))
    return results


@asynccontextmanager
async def idle_groups(
    name_server: str, members: int, progress: Progress, n_groups: int = GROUPS
) -> AsyncIterator[float]:
    """Run some groups of `TOPIC` while the block runs; yields `time.perf_counter()` when all had converged."""
    watch = ConvergenceWatch()
    groups = {
        group: [make_consumer(name_server, group, number, watch.record, trace=False) for number in range(members)]
        for group in (f"bench-{number:02d}" for number in range(n_groups))
    }
    progress(f"starting {n_groups} groups of {members} consumers")
    async with running([consumer for consumers in groups.values() for consumer in consumers]):
        expected: Targets = {}
        for group, consumers in groups.items():
            queues = await group_queues(name_server, group)
            expected |= targets(group, [consumer.client_id for consumer in consumers], queues)
        watch.expect(expected)
        progress("waiting until they have converged")
        yield await watch.wait_converged(_CONVERGE_S)
        progress("stopping them")
