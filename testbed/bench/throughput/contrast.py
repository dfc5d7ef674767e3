"""contrast: cost of one slow member in a group that pulls queues, and in one that pops messages.

Twelve consumers of one topic with four queues, each with one message at a time, 10 ms a message; the first of them
takes 100 ms. For 30 s 200 messages/s are sent, 50 to each queue; then the group consumes the rest.

    queues     each queue has one owner: eight members have none, and the slow one processes 10 of the 50 messages/s of
               its queue
    messages   each member pops as many as it can, with at most `max_unacked` unacknowledged messages: the slow member
               delays only those

It is measured in the simulation, with the real broker and clients: waiting is compared, and virtual time has no
noise, gives every machine the same figures, and takes seconds instead of minutes. The cost of requests, higher for
messages than for queues, is measured by `consume` and `pop`.

`python -m testbed.bench.throughput.contrast_chart > docs/pop-contrast.svg` draws the lag.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from client import ConsumeFrom, MessageExt
from client.options import ConsumeMode
from model.limits import MAX_UNACKED
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, percentile
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

QUEUES, MEMBERS = 4, 12
WORK_S, SLOW_WORK_S = 0.01, 0.1
PER_S = 200
SECONDS = 30.0
FEW_UNACKED = 1
"""No message waits behind a listener; the next one comes a round trip after the acknowledgement."""
SAMPLE_S = 1.0
_GROUP, _TOPIC = "contrast", "contrast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to consume."""

    name: str  # part of the names of its figures
    label: str  # of its line in a chart
    options: dict[str, Any]  # of each consumer


WAYS = (
    Way(name="queues", label="queues", options={"mode": ConsumeMode.PULL}),
    Way(
        name="messages",
        label=f"messages, max_unacked {FEW_UNACKED}",
        options={"mode": ConsumeMode.POP, "max_unacked": FEW_UNACKED},
    ),
    Way(
        name=f"messages-{MAX_UNACKED}",
        label=f"messages, max_unacked {MAX_UNACKED} (default)",
        options={"mode": ConsumeMode.POP, "max_unacked": MAX_UNACKED},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastOutcome:
    """Result of one way."""

    backlog: tuple[int, ...]  # stored and not processed: every `SAMPLE_S` from the first one sent on, and at the end
    latencies_s: tuple[float, ...]  # from stored to processed, in the order of processing
    finished: tuple[int, ...]  # messages processed by each member, the slow one first
    drained_s: float  # from the first message sent until the last one was processed


async def bench_contrast(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure each of `WAYS`; after a cancellation the current measurement runs to its end in its thread."""
    loop = asyncio.get_running_loop()
    results = []
    for way in WAYS:
        progress(way.label)
        outcome = await loop.run_in_executor(None, measure_contrast, way)
        results += make_results(way, outcome)
    return results


def make_results(way: Way, outcome: ContrastOutcome) -> list[Result]:
    """The figures of one way."""
    working, n = sum(map(bool, outcome.finished)), len(outcome.latencies_s)
    name = f"contrast-{way.name}"
    return [
        Result(
            name=f"{name}-backlog",
            value=max(outcome.backlog),
            unit="messages",
            note=f"{working} of {len(outcome.finished)} members got work; {n:,} done after {outcome.drained_s:.1f} s",
        ),
        Result(name=f"{name}-p50", value=percentile(outcome.latencies_s, 0.5) * 1000, unit="ms"),
        Result(name=f"{name}-p99", value=percentile(outcome.latencies_s, 0.99) * 1000, unit="ms"),
    ]


def measure_contrast(way: Way, seconds: float = SECONDS) -> ContrastOutcome:
    """Run one way in a separate simulation; messages are sent for `seconds` of virtual time."""
    with tempfile.TemporaryDirectory(prefix="rlab-bench-") as folder:
        return run_simulation(partial(_contrast, way=way, seconds=seconds, folder=Path(folder)))


async def _contrast(simulation: Simulation, *, way: Way, seconds: float, folder: Path) -> ContrastOutcome:
    loop, sent, total = simulation.loop, 0, round(seconds * PER_S)
    latencies: list[float] = []
    finished, backlog = [0] * MEMBERS, [0]
    done = anyio.Event()

    def listener(number: int) -> Any:
        async def on_messages(messages: Sequence[MessageExt]) -> None:
            for message in messages:
                await anyio.sleep(WORK_S if number else SLOW_WORK_S)
                latencies.append((simulation.clock_ms() - message.stored_ms) / 1000)
                finished[number] += 1
            if len(latencies) == total:
                done.set()

        return on_messages

    async with SimulatedCluster(simulation, folder, brokers=1) as cluster:
        await cluster.create_topic(_TOPIC, queues=QUEUES)
        for number in range(MEMBERS):
            options = {"consume_from": ConsumeFrom.FIRST_OFFSET, "max_workers": 1, **way.options}
            await cluster.start_consumer(
                _GROUP, _TOPIC, listener=listener(number), host=f"member{number:02}", **options
            )
        producer = await cluster.start_producer()
        await anyio.sleep(SAMPLE_S)  # the group has converged
        began = loop.time()

        async def sample() -> None:
            while True:
                await anyio.sleep_until(began + len(backlog) * SAMPLE_S)
                backlog.append(sent - len(latencies))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sample)
            for number in range(total):
                await anyio.sleep_until(began + number / PER_S)
                await producer.send(_TOPIC, b"%d" % number)
                sent += 1
            await done.wait()
            tasks.cancel_scope.cancel()
        return ContrastOutcome(
            backlog=(*backlog, sent - len(latencies)),
            latencies_s=tuple(latencies),
            finished=tuple(finished),
            drained_s=loop.time() - began,
        )
