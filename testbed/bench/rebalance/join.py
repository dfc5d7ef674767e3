"""join-100: time that a group takes to converge after a join.

A group of 100 consumers, each a client with a connection of its own, owns the 400 queues of a topic. Another one joins:
the clock starts with its `subscribe` and stops when every member owns exactly its target for the new member list. Then
it leaves again, and when the group has converged the next one joins. With the default strategy a join moves the queues
of every member that sorts after it, so joins are spread over the order.
"""

from __future__ import annotations

import time
from statistics import median

import anyio

from model.limits import NOTIFY_WINDOW_S
from testbed.bench.kit.consumers import group_queues, ignore, make_consumer, running, targets
from testbed.bench.kit.convergence import ConvergenceWatch
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.processes import cluster_processes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, percentile

GROUP = "bench"
_CONVERGE_S = 120.0


async def bench_join(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure joins."""
    async with cluster_processes({TOPIC: sizes.queues}) as cluster:
        times_ms = await measure_joins(cluster.name_server, sizes, progress)
    return [
        Result(name="join-100", value=median(times_ms), unit="ms"),
        Result(name="join-100-p95", value=percentile(times_ms, 0.95), unit="ms"),
    ]


async def measure_joins(name_server: str, sizes: Sizes, progress: Progress) -> list[float]:
    """Measure joins in a cluster that has `TOPIC`; returns milliseconds."""
    watch = ConvergenceWatch()
    # Odd numbers, so that a joining one can come between any two of them, or before or after all.
    consumers = [make_consumer(name_server, GROUP, 2 * number + 1, watch.record) for number in range(sizes.members)]
    progress(f"starting {sizes.members} consumers")
    times_ms = []
    async with running(consumers):
        queues = await group_queues(name_server, GROUP)
        old_targets = targets(GROUP, [consumer.client_id for consumer in consumers], queues)
        watch.expect(old_targets)
        await watch.wait_converged(_CONVERGE_S)
        for number in range(sizes.joins):
            progress(f"join {number + 1} of {sizes.joins}")
            # A group that has just changed notifies its members of the next change only after its window.
            await anyio.sleep(2 * NOTIFY_WINDOW_S)
            position = round(number * sizes.members / max(1, sizes.joins - 1))
            async with make_consumer(name_server, GROUP, 2 * position, watch.record) as joiner:
                members = [*consumers, joiner]
                after = targets(GROUP, [consumer.client_id for consumer in members], queues)
                watch.expect(after)
                started = time.perf_counter()
                await joiner.subscribe(TOPIC, ignore)
                times_ms.append((await watch.wait_converged(_CONVERGE_S) - started) * 1000)
                for consumer in members:
                    assert consumer.queues == after[consumer.client_id], "the watch is wrong"
                watch.expect(old_targets)
            await watch.wait_converged(_CONVERGE_S)
    return times_ms
