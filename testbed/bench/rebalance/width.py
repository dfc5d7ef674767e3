"""width: the cost of a cold start, a join, a leave and a crash, by the size of the group, in virtual time.

Groups of 10 to 1,000 consumers with four queues each on two brokers, by default with AVG, where a member that joins or
leaves in the middle of the order moves about half of the queues. Servers and clients are the real ones, in one
process and on a simulated network, so bytes and moves are the same on every machine; the CPU time is that of all
members and both brokers together. The growth of the CPU time with the size of the group depends little on the machine:
the exponent of the cost over the number of members is fitted, and 1 means that each member costs the same in a group of
any size.

The clients of one process share member lists and routes; a thousand processes of one consumer each would be sent a few
more bytes (the difference of the member list) and compute as much each.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import linear_regression

import anyio

from model.events import EventKind
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

GROUP, TOPIC = "width", "width"
QUEUES_PER_MEMBER = 4
AT_ONCE = 32
"""Members of a cold start that join at the same time."""
SETTLE_S = 15.0
"""Virtual time after each change; a new group settles within ten seconds."""
FITTED_FROM = 100
"""Smaller groups do not count for the exponent: there the fixed cost of a change is most of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCost:
    """The cost of one change of a group, of all members and brokers together."""

    change: str  # `cold`, `join`, `leave` or `crash`
    members: int  # before the change; at a cold start, after it
    bytes_sent: int
    cpu_s: float
    moves: int  # times that a queue was acquired


async def bench_width(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure groups of every size, and fit the exponents."""
    costs: list[ChangeCost] = []
    for members in sizes.widths:
        progress(f"{members} members")
        costs += await anyio.to_thread.run_sync(measure_group, members)
    return [*_figures(costs), *_exponents(costs)]


def measure_group(members: int) -> list[ChangeCost]:
    """The cost of each change in a group of `members` members."""
    with tempfile.TemporaryDirectory() as folder:
        return run_simulation(partial(_live, members, Path(folder)), seed=members)


async def _live(members: int, folder: Path, simulation: Simulation) -> list[ChangeCost]:
    costs: list[ChangeCost] = []
    async with SimulatedCluster(simulation, folder) as cluster:
        await cluster.create_topic(TOPIC, queues=members * QUEUES_PER_MEMBER // 2)

        async def change(name: str, work: Callable[[], Awaitable[object]]) -> None:
            start = simulation.network.statistics().bytes_sent, len(cluster.events), time.thread_time()
            await work()
            await anyio.sleep(SETTLE_S)
            end = simulation.network.statistics().bytes_sent, len(cluster.events), time.thread_time()
            acquired = [event for event in cluster.events[start[1] : end[1]] if _is_move(event.kind, event.topic)]
            costs.append(
                ChangeCost(
                    change=name,
                    members=members,
                    bytes_sent=end[0] - start[0],
                    cpu_s=end[2] - start[2],
                    moves=len(acquired),
                )
            )
            await cluster.wait_converged(1.0)

        join = partial(cluster.start_consumer, GROUP, TOPIC)
        # Every second number, so that the one that joins comes into the middle of the order.
        middle = members // 2 * 2
        await change("cold", partial(_start_all, [partial(join, host=_host(2 * n)) for n in range(members)]))
        await change("join", partial(join, host=_host(middle + 1)))
        await change("leave", cluster.consumers[-1].stop)
        await change("crash", cluster.consumers[0].crash)
    return costs


def _host(number: int) -> str:
    return f"m{number:06}"


def _is_move(kind: str, topic: str) -> bool:
    return kind == EventKind.QUEUE_ACQUIRED and topic == TOPIC


async def _start_all(starts: Sequence[Callable[[], Awaitable[object]]]) -> None:
    left = iter(starts)

    async def start_some() -> None:
        for start in left:
            await start()

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(start_some)


def _figures(costs: Sequence[ChangeCost]) -> list[Result]:
    return [
        Result(
            name=f"width-{cost.change}-{cost.members}",
            value=cost.bytes_sent / cost.members,
            unit="bytes/member",
            note=f"{cost.moves:,} moves, {1000 * cost.cpu_s / cost.members:.2f} ms of CPU a member",
        )
        for cost in costs
    ]


def _exponents(costs: Sequence[ChangeCost]) -> list[Result]:
    results = []
    for change in dict.fromkeys(cost.change for cost in costs):
        fitted = [cost for cost in costs if cost.change == change and cost.members >= FITTED_FROM]
        if len(fitted) > 1:
            for quantity, values in (("bytes", [c.bytes_sent for c in fitted]), ("cpu", [c.cpu_s for c in fitted])):
                value = fitted_exponent([cost.members for cost in fitted], values)
                results.append(Result(name=f"width-{change}-{quantity}", value=value, unit="exponent"))
    return results


def fitted_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The k of cost = c * size**k that fits best: the slope of the logarithms."""
    return linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs]).slope
