"""Every benchmark by its name, and a loop that runs some of them.

A benchmark is a function of `Sizes` and `Progress` that measures and returns `Result`s. Its module is imported when the
benchmark begins: `rlab --help` needs only the names.

Every benchmark raises `RlabError` when a process did not start, a request failed, or a group did not converge, and
spark when it is not installed. When one is cancelled, every process is stopped and its files are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.bench.kit.report import Result
    from testbed.bench.kit.rounds import Progress, Sizes

    Benchmark = Callable[[Sizes, Progress], Coroutine[Any, Any, list[Result]]]

BENCHMARKS = {
    "send-64": "throughput.send:bench_send_64",
    "send-1": "throughput.send:bench_send_1",
    "pull-32": "throughput.pull:bench_pull",
    "filters": "throughput.filtered:bench_filters",
    "consume": "throughput.pull:bench_consume",
    "order": "throughput.order:bench_order",
    "pop": "throughput.pop:bench_pop",
    "pop-memory": "throughput.pop:bench_pop_memory",
    "transactions": "throughput.transactions:bench_transactions",
    "transactions-open": "throughput.transactions:bench_open_transactions",
    "contrast": "throughput.contrast:bench_contrast",
    "sticky": "rebalance.sticky:bench_sticky",
    "join-100": "rebalance.join:bench_join",
    "stalls": "rebalance.stalls:bench_stalls",
    "half-away": "throughput.half_away:bench_half_away",
    "trace-cost": "throughput.trace_cost:bench_trace_cost",
    "security-cost": "throughput.security_cost:bench_security_cost",
    "twice": "rebalance.twice:bench_twice",
    "moves-100": "rebalance.moves:bench_moves",
    "consumers-2000": "rebalance.memory:bench_memory",
    "crowd": "rebalance.memory:bench_crowd",
    "overload": "rebalance.overload:bench_overload",
    "width": "rebalance.width:bench_width",
    "store-async": "disk.store_sends:bench_store_async",
    "store-sync": "disk.store_sends:bench_store_sync",
    "catch-up": "disk.catch_up:bench_catch_up",
    "recovery": "disk.recovery:bench_recovery",
    "store-memory": "disk.store_memory:bench_store_memory",
    "copies": "copies.every:bench_copies",
    "failover": "copies.failover:bench_failover",
    "spark": "spark:bench_spark",
}
"""Module below `testbed.bench` and function, by name, in the order of the help."""

BY_NAME_ONLY = (
    "trace-cost",
    "security-cost",
    "twice",
    "crowd",
    "overload",
    "width",
    "store-memory",
    "copies",
    "failover",
    "spark",
)
"""Left out by default, because they take long, need much disk space, or need Spark."""


def benchmark(name: str) -> Benchmark:
    """Import one benchmark."""
    module, function = BENCHMARKS[name].split(":")
    run_benchmark: Benchmark = getattr(import_module(f".{module}", __package__), function)
    return run_benchmark


async def run_benchmarks(names: Sequence[str], sizes: Sizes, progress: Progress) -> list[Result]:
    """Run benchmarks one after another.

    Raises:
        RlabError: one of them failed; those before it are lost.

    Cancellation: every process is stopped.
    """
    results: list[Result] = []
    for number, name in enumerate(names, 1):

        def begin(step: str, where: str = f"{number}/{len(names)} {name}") -> None:
            progress(f"{where}: {step}")

        results += await benchmark(name)(sizes, begin)
    return results
