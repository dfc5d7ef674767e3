"""Many seeds of one simulation, on every core: what `order.py` and `pop.py` of this folder have in common.

parser = seeds_parser("simulation.runs.order", "Order under churn ...")      --seeds --first-seed --processes
for verdict in run_seeds(run_order, every, processes, verdict_line): ...    says how it goes
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Protocol, TypeVar

_EACH_SAID = 20
"""With so many seeds or fewer, each has a line; with more, only those that failed, and so many to say how far it is."""


class Verdict(Protocol):
    """What the outcome of a seed has to have."""

    seed: int
    violations: list[str]
    faults: Counter[str]
    took_s: float


_Options = TypeVar("_Options")
_V = TypeVar("_V", bound=Verdict)


def seeds_parser(module: str, doc: str) -> argparse.ArgumentParser:
    """The options that every such command has.

    Args:
        module: what is run with `python -m`.
        doc: its docstring, whose first line says what it does.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many seeds run at once")
    return parser


def run_seeds(
    run: Callable[[_Options], _V], every: Sequence[_Options], processes: int, line_of: Callable[[_V], str]
) -> Iterator[_V]:
    """Run each of `every` in processes of their own, say how it goes, and yield the verdicts in order.

    Args:
        run: runs one seed; a function of a module, so that other processes find it.
        every: options of each seed.
        processes: how many run at once.
        line_of: what came of a seed, in words.
    """
    failed = 0
    with ProcessPoolExecutor(processes, initializer=_be_quiet) as pool:
        for done, verdict in enumerate(pool.map(run, every), 1):
            failed += bool(verdict.violations)
            if verdict.violations or len(every) <= _EACH_SAID:
                say(line_of(verdict))
            elif done % (len(every) // _EACH_SAID) == 0:
                say(f"{done} of {len(every)} seeds, {failed} failed")
            yield verdict


def verdict_line(verdict: Verdict, what: str) -> str:
    """What came of a seed, in a line, and each violation in one more; `what` are its figures, in words."""
    result = "FAILED" if verdict.violations else "passed"
    line = f"seed {verdict.seed}: {result} after {verdict.took_s:.0f} s; {what} ({faults_line(verdict.faults)})"
    return "\n  ".join([line, *verdict.violations])


def faults_line(faults: Mapping[str, int]) -> str:
    """How often what was done to the cluster."""
    return ", ".join(f"{what} {n:,}" for what, n in sorted(faults.items()))


def say(line: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _be_quiet() -> None:
    logging.disable(logging.ERROR)  # clients and brokers complain all the time, and rightly
