"""Rounds of a fixed time, in turns with their baseline.

Noise of the machine lasts longer than a round: with all rounds of one side first, it would hit only one side. So the
sides take turns, in random order, each turn gives one ratio, and the turn with the median ratio is reported, with the
interval of that median (`interval.py`) and the CPU time that the machine did not give (`host_share.py`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar

import anyio

from testbed.bench.kit.host_share import CpuShares, cpu_shares, read_cpu_time
from testbed.bench.kit.interval import MIN_ROUNDS, SEED, median_interval
from testbed.bench.kit.report import Result

T = TypeVar("T")

Progress = Callable[[str], None]
"""Called with the name of the next step."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of all benchmarks."""

    seconds: float = 0.5  # length of one round
    repeat: int = 15  # number of turns
    joins: int = 20  # measured by join-100
    members: int = 100  # consumers of that group before the join
    queues: int = 400  # of their topic
    idle: int = 2_000  # consumers of the memory benchmark
    crowd: int = 5_000  # consumers of crowd
    crowd_s: float = 60.0  # for which they are idle: two heartbeats and three timers of each
    load_s: float = 8.0  # of overload, for each kind of request
    backlog: int = 16_384  # messages of each queue that is pulled
    peer_backlog: int = 262_144  # messages of a topic that systems are compared with
    cold: int = 1_000_000  # messages that are read from cold files
    passes: int = 3  # restarts or full reads, of which the median is reported; kills of twice, of which the worst is
    stored_bytes: int = 2 * 1024 * MIB  # by store-memory
    copied_bytes: int = 512 * MIB  # of the log that replicas copy
    recovery_bytes: int = 64 * MIB  # unit of recovery, which stores it once, four and sixteen times
    stalls: int = 20  # consumers that are killed; a quarter as many are stopped
    twice: int = 25_000  # messages that are sent while a consumer is killed
    moves: int = 6  # consumers that join and leave again under load
    widths: tuple[int, ...] = (10, 30, 100, 300, 1_000)  # members of the groups of width
    in_flight: int = 1_000_000  # invisible messages of pop-memory
    open_transactions: int = 100_000  # half messages of transactions-open
    spark_rows: int = 1_000_000  # messages that Spark reads at a time; it writes half as many
    trickle: int = 200  # messages whose latency to Spark is measured


class Window:
    """The time in which work counts for a round."""

    __slots__ = ("done", "open")

    def __init__(self) -> None:
        self.open = True
        self.done = 0

    def close(self) -> None:
        """End the round; workers finish the operation that they have begun."""
        self.open = False


class Turn(NamedTuple):
    """Rates of one turn, per second."""

    value: float
    baseline: float

    @property
    def ratio(self) -> float:
        """Value divided by the baseline."""
        return self.value / self.baseline


Work = Callable[[Window], Coroutine[Any, Any, None]]
"""A worker of a round: repeats an operation while the window is open and adds the number to `done`."""


Round = Callable[[], Coroutine[Any, Any, float]]
"""Measures a rate, per second."""


class RoundCount(NamedTuple):
    """The operations of the workers of a round, and its seconds."""

    done: int
    elapsed_s: float


async def count(work: Work, workers: int, seconds: float) -> RoundCount:
    """Run a round: `workers` copies of `work` for some seconds. Cancellation: the workers are cancelled."""
    window = Window()
    started = time.perf_counter()
    timer = asyncio.get_running_loop().call_later(seconds, window.close)
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(workers):
                tasks.start_soon(work, window)
    finally:
        timer.cancel()
    return RoundCount(window.done, time.perf_counter() - started)


async def rate(work: Work, workers: int, seconds: float) -> float:
    """Run a round (see `count`); returns the operations per second of all workers together."""
    done, elapsed_s = await count(work, workers, seconds)
    return done / elapsed_s


class MeasuredTurns(list[Turn]):
    """The turns of two sides.

    Attributes:
        host: the CPU time that this machine did not give to them; None if that is unknown.
    """

    host: CpuShares | None = None


async def in_turns(value: Round, baseline: Round, repeat: int) -> MeasuredTurns:
    """Measure both sides `repeat` times, in turns; which goes first is random.

    Both run once before that, uncounted, to fill caches and make connections. Cancellation: it stops.
    """
    await baseline()
    await value()
    turns, random, cpu_before = MeasuredTurns(), Random(SEED), read_cpu_time()
    for _ in range(repeat):
        measured: dict[Round, float] = {}
        for side in random_order([value, baseline], random):
            measured[side] = await side()
        turns.append(Turn(measured[value], measured[baseline]))
    turns.host = cpu_shares(cpu_before, read_cpu_time())
    return turns


def random_order(systems: Sequence[T], random: Random) -> list[T]:
    """The order of a round."""
    return random.sample(systems, len(systems))


def median_turn(turns: list[Turn]) -> Turn:
    """The turn whose ratio is the median; of two in the middle the lower one."""
    return sorted(turns, key=lambda turn: turn.ratio)[(len(turns) - 1) // 2]


def percentile(figures: Sequence[float], share: float) -> float:
    """The smallest of some figures that at least this share of them does not exceed."""
    return sorted(figures)[max(0, math.ceil(share * len(figures)) - 1)]


def make_result(name: str, turns: list[Turn], note: str = "") -> Result:
    """The figure of a benchmark that was measured in turns; with its interval if there are enough of them."""
    turn, ratios = median_turn(turns), [turn.ratio for turn in turns]
    return Result(
        name=name,
        value=turn.value,
        unit="messages/s",
        baseline_value=turn.baseline,
        ratio=turn.ratio,
        interval=median_interval(ratios) if len(ratios) >= MIN_ROUNDS else None,
        host=turns.host if isinstance(turns, MeasuredTurns) else None,
        note=note,
    )
