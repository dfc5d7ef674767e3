"""memory-idle-consumer and consumers-2000: what connected consumers that get no message cost a broker.

Each is a client of its own, a member of one of twenty groups, with a connection, a lease and a held pull. The broker's
resident memory is read before the first and after the last, so the traces of their arrival that it keeps count too.
"""

from __future__ import annotations

import time

import anyio

from cli.bench.consumers import Shares, consumer_of, queues_of, running, shares
from cli.bench.echo import TOPIC
from cli.bench.group_watch import GroupWatch
from cli.bench.processes import cluster_processes
from cli.bench.report import Result
from cli.bench.rounds import Progress, Sizes

GROUPS = 20
_BALANCE_S = 300.0
_SETTLE_S = 3.0
"""Traces are sent every second; they have arrived after this."""


async def bench_memory(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory.

    Raises:
        NotBalanced: the groups did not come to rest.
        RlabError: the cluster did not start.

    Cancellation: every process is stopped.
    """
    of_one_group = sizes.idle // GROUPS
    async with cluster_processes({TOPIC: of_one_group}) as cluster:
        (broker,) = cluster.brokers
        watch = GroupWatch()
        groups = {
            f"bench-{group:02d}": [
                consumer_of(cluster.name_server, f"bench-{group:02d}", n, watch) for n in range(of_one_group)
            ]
            for group in range(GROUPS)
        }
        everybody = [consumer for consumers in groups.values() for consumer in consumers]
        before = await broker.rss_bytes()
        progress(f"starting {len(everybody)} consumers")
        started = time.perf_counter()
        async with running(everybody):
            expected: Shares = {}
            for group, consumers in groups.items():
                queues = await queues_of(cluster.name_server, group)
                expected |= shares(group, [consumer.client_id for consumer in consumers], queues)
            watch.expect(expected)
            progress(f"balancing {len(everybody)} consumers")
            balanced_s = await watch.wait_balanced(_BALANCE_S) - started
            await anyio.sleep(_SETTLE_S)
            after = await broker.rss_bytes()
            progress(f"stopping {len(everybody)} consumers")
    return [
        Result(name="memory-idle-consumer", value=(after - before) / len(everybody) / 1024, unit="KiB"),
        Result(name=f"consumers-{len(everybody)}", value=balanced_s, unit="s"),
    ]
