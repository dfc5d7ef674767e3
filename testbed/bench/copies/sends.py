"""copies: sends with acks=all to a set of two replicas, and to a set of one, compared with a broker without copies.

    copies-send-64   64 awaited at the same time, two copies
    copies-send-1    one awaited after the other, two copies: the median time of a send
    copies-one       64 awaited at the same time, a set of one: the cost of a set without another replica

The three clusters run at the same time, and their rounds take turns. The note of each figure has the CPU time per
message: other load on the machine changes it less than it changes the rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from client import Message, Producer
from process.children import Child
from testbed.bench.copies.replica_processes import set_processes
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.interval import MIN_ROUNDS, median_interval
from testbed.bench.kit.processes import cluster_processes, cpu_s
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import (
    MeasuredTurns,
    Progress,
    Sizes,
    count,
    in_turns,
    make_result,
    median_turn,
    percentile,
)
from testbed.bench.throughput.send import IN_FLIGHT, QUEUES, sending


class TimedSends:
    """The sends to one broker, and the CPU time of its servers in all rounds so far."""

    def __init__(self, label: str, producer: Producer, servers: dict[str, Child], progress: Progress) -> None:
        self._label = label
        self._producer = producer
        self._servers = servers
        self._progress = progress
        self._cpu_s: dict[str, float] = {}
        self._sent = 0

    def rates(self, seconds: float) -> Callable[[], Coroutine[Any, Any, float]]:
        """A round with `IN_FLIGHT` sends at the same time; returns messages per second."""

        async def run() -> float:
            self._progress(f"send-{IN_FLIGHT}, {self._label}")
            times_before = await self._times()
            counted = await count(sending(self._producer), IN_FLIGHT, seconds)
            await self._add(times_before, counted.done)
            return counted.done / counted.elapsed_s

        return run

    def medians(self, seconds: float) -> Callable[[], Coroutine[Any, Any, float]]:
        """A round with one send after the other; returns the median time of a send in milliseconds."""

        async def run() -> float:
            self._progress(f"send-1, {self._label}")
            times_before, times_ms, end = await self._times(), list[float](), time.perf_counter() + seconds
            message, now = Message(TOPIC, BODY), time.perf_counter()
            while now < end:
                await self._producer.send(message)
                after = time.perf_counter()
                times_ms.append((after - now) * 1000)
                now = after
            await self._add(times_before, len(times_ms))
            return percentile(times_ms, 0.5)

        return run

    async def _times(self) -> dict[str, float]:
        return {name: await cpu_s(child) or 0.0 for name, child in self._servers.items()}

    async def _add(self, times_before: dict[str, float], sent: int) -> None:
        self._sent += sent
        for name, after in (await self._times()).items():
            self._cpu_s[name] = self._cpu_s.get(name, 0.0) + after - times_before[name]

    def take_cpu(self) -> str:
        """The CPU time per message of each server since the last call, in microseconds, as text."""
        sent, self._sent = max(self._sent, 1), 0
        times, self._cpu_s = self._cpu_s, {}
        return ", ".join(f"{name} {seconds / sent * 1e6:.0f}" for name, seconds in times.items())


async def measure_sends(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends to sets of two and of one against a broker without copies."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(cluster_processes({TOPIC: QUEUES}))
        two = await stack.enter_async_context(set_processes(2))
        single_set = await stack.enter_async_context(set_processes(1))
        plain_producer, two_producer, one_producer = [
            await stack.enter_async_context(Producer(each.name_server)) for each in (cluster, two, single_set)
        ]
        plain = TimedSends("without copies", plain_producer, {"broker": cluster.broker}, progress)
        servers = {"master": two.master, "replica": two.others[0]}
        copied = TimedSends("two copies", two_producer, servers, progress)
        single = TimedSends("set of one", one_producer, {"master": single_set.master}, progress)
        seconds, repeat = sizes.seconds, sizes.repeat
        rates_two = await in_turns(copied.rates(seconds), plain.rates(seconds), repeat)
        results = [make_result("copies-send-64", rates_two, _note(copied, plain))]
        medians_two = await in_turns(copied.medians(seconds), plain.medians(seconds), repeat)
        results.append(median_result("copies-send-1", medians_two, _note(copied, plain)))
        rates_one = await in_turns(single.rates(seconds), plain.rates(seconds), repeat)
        results.append(make_result("copies-one", rates_one, _note(single, plain)))
        return results


def _note(side: TimedSends, plain: TimedSends) -> str:
    return f"CPU µs a message: {side.take_cpu()}, without copies {plain.take_cpu()}"


def median_result(name: str, turns: MeasuredTurns, note: str) -> Result:
    """The result of turns whose values are medians in milliseconds."""
    turn, ratios = median_turn(turns), [turn.ratio for turn in turns]
    return Result(
        name=name,
        value=turn.value,
        unit="ms",
        baseline_value=turn.baseline,
        ratio=turn.ratio,
        interval=median_interval(ratios) if len(ratios) >= MIN_ROUNDS else None,
        host=turns.host,
        note=note,
    )
