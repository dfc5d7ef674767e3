"""Every benchmark by its name, and a loop that runs some of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from testbed.bench.disk.catch_up import bench_catch_up
from testbed.bench.disk.recovery import bench_recovery
from testbed.bench.disk.store_memory import bench_store_memory
from testbed.bench.disk.store_sends import bench_store_async, bench_store_sync
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes
from testbed.bench.rebalance.join import bench_join
from testbed.bench.rebalance.memory import bench_crowd, bench_memory
from testbed.bench.rebalance.moves import bench_moves
from testbed.bench.rebalance.overload import bench_overload
from testbed.bench.rebalance.stalls import bench_stalls
from testbed.bench.rebalance.sticky import bench_sticky
from testbed.bench.rebalance.twice import bench_twice
from testbed.bench.rebalance.width import bench_width
from testbed.bench.spark import bench_spark
from testbed.bench.throughput.contrast import bench_contrast
from testbed.bench.throughput.half_away import bench_half_away
from testbed.bench.throughput.order import bench_order
from testbed.bench.throughput.pop import bench_pop, bench_pop_memory
from testbed.bench.throughput.pull import bench_consume, bench_pull
from testbed.bench.throughput.security_cost import bench_security_cost
from testbed.bench.throughput.send import bench_send
from testbed.bench.throughput.trace_cost import bench_trace_cost
from testbed.bench.throughput.transactions import bench_open_transactions, bench_transactions

Benchmark = Callable[[Sizes, Progress], Coroutine[Any, Any, list[Result]]]
"""Measures with the given sizes and reports the next step to `Progress`.

Raises:
    RlabError: a process did not start, a request failed, or a group did not converge; for spark, it is not installed.

Cancellation: every process is stopped and its files are removed.
"""

BENCHMARKS: dict[str, Benchmark] = {
    "send-64": partial(bench_send, in_flight=64),
    "send-1": partial(bench_send, in_flight=1),
    "pull-32": bench_pull,
    "consume": bench_consume,
    "order": bench_order,
    "pop": bench_pop,
    "pop-memory": bench_pop_memory,
    "transactions": bench_transactions,
    "transactions-open": bench_open_transactions,
    "contrast": bench_contrast,
    "sticky": bench_sticky,
    "join-100": bench_join,
    "stalls": bench_stalls,
    "half-away": bench_half_away,
    "trace-cost": bench_trace_cost,
    "security-cost": bench_security_cost,
    "twice": bench_twice,
    "moves-100": bench_moves,
    "consumers-2000": bench_memory,
    "crowd": bench_crowd,
    "overload": bench_overload,
    "width": bench_width,
    "store-async": bench_store_async,
    "store-sync": bench_store_sync,
    "catch-up": bench_catch_up,
    "recovery": bench_recovery,
    "store-memory": bench_store_memory,
    "spark": bench_spark,
}


async def run_benchmarks(names: Sequence[str], sizes: Sizes, progress: Progress) -> list[Result]:
    """Run benchmarks one after another.

    Raises:
        RlabError: one of them failed; those before it are lost.

    Cancellation: every process is stopped.
    """
    results: list[Result] = []
    for number, name in enumerate(names, 1):

        def begin(what: str, where: str = f"{number}/{len(names)} {name}") -> None:
            progress(f"{where}: {what}")

        results += await BENCHMARKS[name](sizes, begin)
    return results
