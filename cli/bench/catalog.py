"""Every benchmark by its name, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from cli.bench.catch_up import bench_catch_up
from cli.bench.contrast import bench_contrast
from cli.bench.join import bench_join
from cli.bench.memory import bench_memory
from cli.bench.moves import bench_moves
from cli.bench.order import bench_order
from cli.bench.pop import bench_pop, bench_pop_memory
from cli.bench.pull import bench_consume, bench_pull
from cli.bench.recovery import bench_recovery
from cli.bench.report import Result
from cli.bench.rounds import Progress, Sizes
from cli.bench.send import bench_send
from cli.bench.spark import bench_spark
from cli.bench.stalls import bench_stalls
from cli.bench.sticky import bench_sticky
from cli.bench.store_memory import bench_store_memory
from cli.bench.store_sends import bench_store_async, bench_store_sync

Benchmark = Callable[[Sizes, Progress], Coroutine[Any, Any, list[Result]]]

BENCHMARKS: dict[str, Benchmark] = {
    "send-64": partial(bench_send, in_flight=64),
    "send-1": partial(bench_send, in_flight=1),
    "pull-32": bench_pull,
    "consume": bench_consume,
    "order": bench_order,
    "pop": bench_pop,
    "pop-memory": bench_pop_memory,
    "contrast": bench_contrast,
    "sticky": bench_sticky,
    "join-100": bench_join,
    "stalls": bench_stalls,
    "moves-100": bench_moves,
    "consumers-2000": bench_memory,
    "store-async": bench_store_async,
    "store-sync": bench_store_sync,
    "catch-up": bench_catch_up,
    "recovery": bench_recovery,
    "store-memory": bench_store_memory,
    "spark": bench_spark,
}


async def run_benchmarks(names: Sequence[str], sizes: Sizes, progress: Progress) -> list[Result]:
    """Run benchmarks one after another.

    Args:
        names: of `BENCHMARKS`.
        sizes: how much to measure.
        progress: told what begins.

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
