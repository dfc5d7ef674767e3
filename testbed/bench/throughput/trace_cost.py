"""trace-cost: the cost of the trace for sends and for a whole consumer, with and without it in turns.

Two clusters run side by side, one whose broker and clients send their events to SYS_TRACE and one whose do not, and the
rounds take turns between them. The interval is that of the median of the ratios, from their order alone, so it assumes
nothing about the distribution of noise.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from math import comb

from client import Producer
from testbed.bench.kit.consumers import consuming
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.interval import Interval
from testbed.bench.kit.processes import cluster_processes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, Turn, in_turns, median_turn
from testbed.bench.throughput.pull import QUEUES, fill
from testbed.bench.throughput.send import IN_FLIGHT, make_round, sending

MIN_TURNS = 20
"""With fewer turns the interval of a median is too wide to be useful."""
CONFIDENCE = 0.95
BACKLOGS = 8
"""Multiple of the messages that are pulled elsewhere: a consumer sends its events once a second, and whether a round
that is shorter than that has their cost is chance."""


async def bench_trace_cost(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends and a consumer, each with the trace against without it."""
    repeat, backlog = max(MIN_TURNS, sizes.repeat), BACKLOGS * sizes.backlog
    async with AsyncExitStack() as stack:
        servers, sends, consumes = [], [], []
        for traced in (True, False):
            label = "with the trace" if traced else "without"
            options = () if traced else ("--no-trace-topic",)
            cluster = await stack.enter_async_context(cluster_processes({TOPIC: QUEUES}, *options))
            progress(f"filling the queues, {label}")
            await fill(cluster.name_server, backlog)
            producer = await stack.enter_async_context(Producer(cluster.name_server, trace=traced))
            servers.append(cluster)
            sends.append(make_round(sending(producer), IN_FLIGHT, sizes, progress, f"send, {label}"))
            consumes.append(
                consuming(
                    f"consume-{'traced' if traced else 'untraced'}",
                    *(cluster.name_server, TOPIC, QUEUES * backlog, sizes, progress),
                    trace=traced,
                )
            )
        consumed = await in_turns(consumes[0], consumes[1], repeat)  # first: sends make the topic longer
        sent = await in_turns(sends[0], sends[1], repeat)
    return [compute_cost("trace-cost-send", sent), compute_cost("trace-cost-consume", consumed)]


def compute_cost(name: str, turns: list[Turn]) -> Result:
    """The part of the rate that the trace takes, in percent, with its interval; below zero is noise."""
    turn, bounds = median_turn(turns), interval([turn.ratio for turn in turns])
    return Result(
        name=name,
        value=round((1 - turn.ratio) * 100, 2),
        unit="% of the rate",
        note=(
            f"{(1 - bounds.high) * 100:.1f} to {(1 - bounds.low) * 100:.1f} % with {CONFIDENCE:.0%} confidence, "
            f"{len(turns)} turns; {turn.value:,.0f} against {turn.baseline:,.0f} messages/s"
        ),
    )


def interval(figures: list[float]) -> Interval:
    """The interval that has the median with `CONFIDENCE`, from the order of the figures.

    Of n figures, the number below the true median is like the heads of n coins. So from the k-th smallest to the k-th
    largest is right unless fewer than k coins show one side.

        20 figures: fewer than 6 heads, or tails, come in 4.1 % of all throws, so it is from the 6th to the 15th
    """
    ordered, n = sorted(figures), len(figures)
    k, outside = 0, 2 * comb(n, 0)
    while outside <= (1 - CONFIDENCE) * 2**n:
        k += 1
        outside += 2 * comb(n, k)
    k = max(1, k)
    return Interval(ordered[k - 1], ordered[n - k])
