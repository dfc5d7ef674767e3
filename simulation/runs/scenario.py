"""Shared parts of `order.py` and `pop.py`: one run per seed on a cluster that faults break, and the command for many.

run_seed(7, OrderVerdict, lambda cluster, disks, tasks: ...)           one world, one directory, one verdict
run_seeds(parser.parse_args(), OrderVerdict, options_of, run_order, figures)   many, in processes of their own
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from anyio.abc import TaskGroup

from broker.store.disk.options import MIB, StoreOptions
from model.errors import RlabError
from remoting.tasks import background_tasks
from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.kernel.run import Simulation, run_simulation

SMALL_STORE = StoreOptions(segment_bytes=MIB // 4, tail_bytes=MIB // 32, index_cache_bytes=MIB // 64)
"""For brokers that live minutes: segments end, and reads miss the caches, as they do in days."""
_LINES = 20
"""Up to this many seeds have a line each; of more, only failed ones do, and this many lines show the progress."""


@dataclass(slots=True)
class SeedVerdict:
    """Result of the run of one seed."""

    seed: int
    violations: list[str] = field(default_factory=list)  # what must not have happened and did
    faults: Counter[str] = field(default_factory=Counter)  # kind of fault -> how often it was done to the cluster
    sent: int = 0  # messages acknowledged to their producer
    took_s: float = 0.0  # virtual seconds

    def add(self, other: SeedVerdict) -> None:
        """Add the figures of another run of the same kind, for a total."""
        for each in fields(self):
            if each.name != "seed":
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


_Options = TypeVar("_Options")
_V = TypeVar("_V", bound=SeedVerdict)


def run_seed(
    seed: int,
    verdict: type[_V],
    run: Callable[[SimulatedCluster, FillingDisks, TaskGroup], Awaitable[_V]],
    **broker_options: Any,
) -> _V:
    """Run a seed on one name server and two brokers, in a world and a directory of its own.

    The task group is cancelled at the end of the run. A run that breaks down has that as its violation.
    """
    with tempfile.TemporaryDirectory() as root:

        async def main(simulation: Simulation) -> _V:
            disks = FillingDisks(Path(root))
            cluster = SimulatedCluster(simulation, Path(root), store=SMALL_STORE, files=disks, **broker_options)
            async with cluster, background_tasks() as tasks:
                return await run(cluster, disks, tasks)

        try:
            return run_simulation(main, seed=seed, jitter_s=0.001)
        except (RlabError, AssertionError, ExceptionGroup) as error:
            # One seed that breaks down must not hide the results of the others.
            logging.getLogger(__name__).critical("seed %d", seed, exc_info=error)
            return verdict(seed, [f"broken: {error!r}"])


def seeds_parser(module: str, doc: str) -> argparse.ArgumentParser:
    """Make a parser with the options of every such command; the first line of `doc` describes it."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many seeds run at once")
    return parser


def run_seeds(
    chosen: argparse.Namespace,
    verdict: type[_V],
    options_of: Callable[[int], _Options],
    run: Callable[[_Options], _V],
    figures: Callable[[_V], str],
) -> int:
    """Run the chosen seeds in processes of their own, and print results and progress; returns the exit code.

    `chosen` is what a `seeds_parser` parsed. `run` is a function of a module, so that other processes find it.
    `figures` has the counts of a verdict in words.
    """
    total, failed = verdict(-1), 0
    every = [options_of(seed) for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)]
    with ProcessPoolExecutor(chosen.processes, initializer=_be_quiet) as pool:
        for done, each in enumerate(pool.map(run, every), 1):
            failed += bool(each.violations)
            total.add(each)
            if each.violations or chosen.seeds <= _LINES:
                say(verdict_line(each, figures(each)))
            elif done % (chosen.seeds // _LINES) == 0:
                say(f"{done} of {chosen.seeds} seeds, {failed} failed")
    say(f"{chosen.seeds} seeds, {failed} failed; {figures(total)}; {faults_line(total.faults)}")
    return 1 if failed else 0


def verdict_line(verdict: SeedVerdict, figures: str) -> str:
    """A line with the result of a seed, and one more for each violation."""
    result = "FAILED" if verdict.violations else "passed"
    line = f"seed {verdict.seed}: {result} after {verdict.took_s:.0f} s; {figures} ({faults_line(verdict.faults)})"
    return "\n  ".join([line, *verdict.violations])


def faults_line(faults: Mapping[str, int]) -> str:
    """The kinds of faults and how often each was done, in words."""
    return ", ".join(f"{what} {n:,}" for what, n in sorted(faults.items()))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _be_quiet() -> None:
    logging.disable(logging.ERROR)  # clients and brokers log errors all the time, because of the faults
