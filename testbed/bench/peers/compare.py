"""All measurements of all systems, in turns.

In each round every system is measured once, in random order, so that a slow minute of the machine meets all of them,
and no system always follows the same other one. The round before the first is not counted: it fills caches and makes
connections. All servers run all the time; a server without requests costs next to nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from testbed.bench.kit.echo import BODY, EchoClient, connect_echo
from testbed.bench.kit.host_share import CpuShares, cpu_shares, read_cpu_time
from testbed.bench.kit.interval import SEED
from testbed.bench.kit.processes import echo_process
from testbed.bench.kit.rounds import Progress, Sizes, random_order, rate
from testbed.bench.peers.latency import measure_latency
from testbed.bench.peers.pace import Latencies
from testbed.bench.peers.systems.protocol import LATENCY, OURS, TOPIC, Sender, System
from testbed.bench.peers.systems.registry import SYSTEMS
from testbed.bench.peers.table import ECHO, PeerComparison, compare
from testbed.bench.peers.work import batch_rate, consume_rate, send_rate
from testbed.bench.throughput.send import echoing

_BATCH = {"consume": 1, "consume-32": 32}
_IN_FLIGHT = {"send-1": 1, "send-64": 64}
_FILLED = "filled"

Figure = TypeVar("Figure")
Measure = Callable[[], Awaitable[Figure]]


@dataclass(frozen=True, slots=True)
class _Running:
    """A system whose server runs."""

    system: System
    address: str


async def run_comparison(
    peers: Sequence[System], names: Sequence[str], sizes: Sizes, progress: Progress
) -> list[PeerComparison]:
    """Measure ours and some peers.

    Raises:
        RlabError: a server did not start, or a request of ours failed.

    Cancellation: every process is stopped and its files are removed.
    """
    results: list[PeerComparison] = []
    async with _servers([SYSTEMS[OURS], *peers], progress) as running:
        if any(name in _BATCH for name in names):
            for each in running:
                if each.system.measurements & _BATCH.keys():
                    progress(f"filling {each.system.name}")
                    await _fill(each, sizes.peer_backlog)
        for name in names:
            kind, _, per_s = name.partition("-")
            measurement = kind if kind == LATENCY else name
            taking = [each for each in running if measurement in each.system.measurements]
            if kind == LATENCY:
                results += await _latencies(int(per_s), taking, sizes, progress)
            else:
                results.append(await _rates(name, taking, sizes, progress))
    return results


@asynccontextmanager
async def _servers(systems: Sequence[System], progress: Progress) -> AsyncIterator[list[_Running]]:
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlab-bench-")))
        addresses: dict[str, str] = {}
        for system in systems:
            if system.server not in addresses:
                progress(f"starting {system.server}")
                folder = root / system.server
                folder.mkdir()
                addresses[system.server] = await stack.enter_async_context(system.serve(folder))
        yield [_Running(system, addresses[system.server]) for system in systems]


def _topic(each: _Running, kind: str) -> str:
    return f"{kind}-{each.system.name}"


async def _fill(each: _Running, count: int) -> None:
    topic = _topic(each, _FILLED)
    await each.system.create(each.address, topic)
    await each.system.fill(each.address, topic, BODY, count)


async def _rates(name: str, taking: Sequence[_Running], sizes: Sizes, progress: Progress) -> PeerComparison:
    async with AsyncExitStack() as stack:
        measures: dict[str, Measure[float]] = {}
        for each in taking:
            system = each.system
            if name in _BATCH:
                topic, batch = _topic(each, _FILLED), _BATCH[name]
                measures[system.name] = partial(
                    consume_rate, system, each.address, topic, sizes.peer_backlog, batch, sizes.seconds
                )
            else:
                topic = _topic(each, f"{TOPIC}-{name}")
                await system.create(each.address, topic)
                sender = await stack.enter_async_context(system.sender(each.address, topic))
                measures[system.name] = _sends(name, sender, sizes.seconds)
        if name in _IN_FLIGHT:
            echo = await stack.enter_async_context(echo_process())
            client = await stack.enter_async_context(connect_echo(echo.address))
            measures[ECHO] = _echoes(client, _IN_FLIGHT[name], sizes.seconds)
        rounds, host = await _in_turns(name, measures, sizes.repeat, progress)
    return compare(name, "messages/s", rounds, more_is_better=True, host=host)


def _sends(name: str, sender: Sender, seconds: float) -> Measure[float]:
    if name in _IN_FLIGHT:
        return partial(send_rate, sender, _IN_FLIGHT[name], seconds)
    return partial(batch_rate, sender, seconds)


def _echoes(client: EchoClient, in_flight: int, seconds: float) -> Measure[float]:
    return partial(rate, echoing(client), in_flight, seconds)


async def _in_turns(
    name: str, measures: Mapping[str, Measure[Figure]], repeat: int, progress: Progress
) -> tuple[dict[str, list[Figure]], CpuShares | None]:
    """Measure each once uncounted, and then all of them in each round, in random order."""
    rounds: dict[str, list[Figure]] = {system: [] for system in measures}
    random, cpu_before = Random(SEED), None
    for number in range(repeat + 1):
        for system in random_order(list(measures), random):
            progress(f"{name}: {system}, " + (f"round {number} of {repeat}" if number else "uncounted round"))
            figure = await measures[system]()
            if number:
                rounds[system].append(figure)
        if not number:
            cpu_before = read_cpu_time()
    return rounds, cpu_shares(cpu_before, read_cpu_time())


async def _latencies(per_s: int, taking: Sequence[_Running], sizes: Sizes, progress: Progress) -> list[PeerComparison]:
    measures: dict[str, Measure[Latencies]] = {
        each.system.name: partial(measure_latency, each.system, each.address, per_s, sizes.seconds) for each in taking
    }
    measured, host = await _in_turns(f"{per_s:,}/s", measures, sizes.repeat, progress)
    results = []
    for percentile in ("p50", "p99", "p999"):
        rounds = {name: [getattr(each, percentile) for each in of_system] for name, of_system in measured.items()}
        results.append(compare(f"latency-{per_s}-{percentile}", "ms", rounds, more_is_better=False, host=host))
    return results
