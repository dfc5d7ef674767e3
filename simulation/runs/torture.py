"""A cluster tortured for an hour of virtual time: nothing acknowledged is lost, and nothing grows.

    python -m simulation.runs.torture --hours 1 --seed 7

It has two name servers, two brokers with small segments, a group that succeeds, a group that fails on some messages,
for a time or always, and producers at a steady rate. In the first two thirds of each round there are random faults:
servers and clients crash, hang, stop and start again, connections are cut, hosts are partitioned, disks are full. Then
all is repaired, the groups must converge, and every acknowledged message must be consumed. At that moment of rest
everything that could leak is counted (`simulation/checks/leaks.py`), and the next round begins.

Invariant: equal options give equal histories, so a failure can be repeated with its seed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from broker.retention.plan import RetentionOptions
from broker.store.disk.options import MIB
from client.listeners.listener import ConsumeResult, Listener
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.limits import PULL_SUSPEND_S, REBALANCE_INTERVAL_S
from model.message import Message, MessageExt
from model.names import dlq_topic
from model.quirks import Quirk
from remoting.tasks import background_tasks
from simulation.checks.invariants import TortureInvariants
from simulation.checks.leaks import LeakDetector, Margin, object_counts, table_sizes
from simulation.checks.process_usage import process_usage
from simulation.cluster.clients import SimulatedConsumer
from simulation.cluster.cluster import NotConverged, SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.kernel.run import Simulation, run_simulation
from simulation.runs.scenario import SMALL_STORE, say

TOPIC, QUEUES = "orders", 8
WORKING, FAILING, DLQ_READER = "works", "fails", "buries"
"""Groups: one that succeeds, one that fails on some messages, and one that reads the DLQ of the second."""
WHOLE_AGAIN_S = 60.0
"""How long the groups may take to converge after the repair, and then to catch up."""
REST_S = PULL_SUSPEND_S + REBALANCE_INTERVAL_S
"""Pause without sends before the count: every pull is held anew, and every member has run a pass."""
MAX_ATTEMPTS, RETRY_DELAY_MS = 3, 1_500
_HEAD = struct.Struct(">IQ")
_MARGINS = {
    "consumer: EventLog._buffer": Margin(1.2, 200, trend=False),  # events of the last second
    # A member list is fetched again only after a change, so it may be from any moment before the repair.
    "consumer: GroupView._members_of": Margin(1.5, 64, trend=False),
    "consumer: GroupView.members": Margin(1.5, 64, trend=False),
    "memory: blocks": Margin(1.03, 5_000),
    "memory: RSS MiB": Margin(1.1, 16, trend=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TortureOptions:
    """Options of a run.

    Attributes:
        quirks: defects of RocketMQ to reproduce; one that loses or reorders messages must be found.
    """

    seed: int = 0
    rounds: int = 12
    round_s: float = 300.0  # length of a round in virtual seconds; longer if the cluster takes longer to catch up
    consumers: int = 10  # in each of the two groups
    producers: int = 4
    rate: float = 20.0  # messages per second, of all producers together
    warm_up: int = 2  # rounds whose counts are ignored
    quirks: frozenset[Quirk] = frozenset()


@dataclass(slots=True)
class TortureVerdict:
    """Result of a run.

    Attributes:
        sent, failed_sends: messages acknowledged, and failed sends.
        deliveries, deliveries_again: calls of listeners, and those for a message that was delivered before.
    """

    violations: list[str] = field(default_factory=list)  # what must not have happened and did
    grown: list[str] = field(default_factory=list)  # see `LeakDetector.grown`
    levels: list[dict[str, float]] = field(default_factory=list)  # everything that was counted, round by round
    faults: Counter[str] = field(default_factory=Counter)  # kind of fault -> how often it was done to the cluster
    sent: int = 0
    failed_sends: int = 0
    deliveries: int = 0
    deliveries_again: int = 0
    dead_letters: int = 0  # dead-letter messages of the failing group

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations and not self.grown


def run_torture(
    options: TortureOptions, data_dir: Path, report: Callable[[str], object] = lambda line: None
) -> TortureVerdict:
    """Torture a cluster whose brokers store below `data_dir`; `report` is called with a line for each round.

    A violation ends the run with its round.
    """

    async def main(simulation: Simulation) -> TortureVerdict:
        disks = FillingDisks(data_dir)
        cluster = SimulatedCluster(
            simulation,
            data_dir,
            name_servers=2,
            brokers=2,
            store=SMALL_STORE,
            retention=RetentionOptions(retain_bytes=MIB),  # stored messages must not be what grows
            files=disks,
            trace=True,
            quirks=options.quirks,
        )
        async with cluster, background_tasks() as tasks:
            return await _Torture(options, cluster, disks, tasks, report).run()

    return run_simulation(main, seed=options.seed, jitter_s=0.001)


class _Torture:
    """One run."""

    def __init__(
        self,
        options: TortureOptions,
        cluster: SimulatedCluster,
        disks: FillingDisks,
        tasks: TaskGroup,
        report: Callable[[str], object],
    ) -> None:
        self.options, self.cluster, self.disks, self.tasks, self.report = options, cluster, disks, tasks, report
        self.simulation = cluster.simulation
        self.invariants = TortureInvariants((WORKING, FAILING))
        self.leaks = LeakDetector(warm_up=options.warm_up, margins=_MARGINS)
        self.verdict = TortureVerdict()
        self.sending = anyio.Event()
        cluster.watchers += [self.invariants.watch, lambda event: cluster.events.clear()]
        cluster.client_options |= {"heartbeat_interval_s": 2.5, "route_poll_interval_s": 5.0, "trace": True}

    async def run(self) -> TortureVerdict:
        """Run all rounds, or up to the first with a violation."""
        verdict, invariants = self.verdict, self.invariants
        await self.cluster.create_topic(TOPIC, queues=QUEUES)
        faults = Faults(self.cluster, self.disks, self._start_consumer)
        slots = [f"{group}-{n}" for group in (WORKING, FAILING) for n in range(self.options.consumers)]
        for slot in [*slots, DLQ_READER]:
            await faults.fill(slot)
        self.sending.set()
        for producer in range(self.options.producers):
            self.tasks.start_soon(self._produce, producer)
        for number in range(self.options.rounds):
            await self._round(number, faults)
            if invariants.violations or verdict.violations:
                break
        verdict.violations += invariants.violations
        verdict.levels = self.leaks.samples
        verdict.grown = [] if verdict.violations else self.leaks.grown()
        verdict.faults = faults.done
        verdict.deliveries, verdict.deliveries_again = invariants.deliveries, invariants.deliveries_again
        verdict.sent, verdict.failed_sends = invariants.checks[WORKING].sent, invariants.checks[WORKING].failed_sends
        return verdict

    async def _round(self, number: int, faults: Faults) -> None:
        loop = self.simulation.loop
        ends_at = loop.time() + self.options.round_s
        # Leaks need time to show: after the warm-up one server of each kind is spared.
        spared = [next(iter(self.cluster.name_servers)), next(iter(self.cluster.brokers))]
        faults.spared = spared if number >= self.options.warm_up else []
        await faults.chaos(self.options.round_s * 2 / 3)
        await faults.make_whole()
        problems = []
        try:
            converged_s = await self.cluster.wait_converged(WHOLE_AGAIN_S, retry_topics=True)
        except NotConverged as error:
            converged_s = WHOLE_AGAIN_S
            problems.append(str(error))
        self.sending = anyio.Event()
        drained_at = loop.time() + WHOLE_AGAIN_S
        while self.invariants.lag and loop.time() < drained_at:  # noqa: ASYNC110 - virtual time costs nothing
            await anyio.sleep(0.5)
        if self.invariants.lag:
            problems += self.invariants.missing()
        await anyio.sleep(REST_S)
        self.leaks.note(self._sample())
        self.sending.set()
        self.verdict.violations += [f"round {number + 1}: {problem}" for problem in problems]
        self.report(self._line(number, converged_s))
        await anyio.sleep(max(0.0, ends_at - loop.time()))

    def _line(self, number: int, converged_s: float) -> str:
        sample, check = self.leaks.samples[-1], self.invariants.checks[WORKING]
        return (
            f"round {number + 1:3} at {self.simulation.loop.time():7.0f} s: converged in {converged_s:5.1f} s, "
            f"{check.sent:,} sent, {check.failed_sends:,} failed, {self.invariants.deliveries:,} delivered, "
            f"{self.invariants.deliveries_again:,} again, {self.verdict.dead_letters:,} dead; "
            f"{sample['asyncio: tasks']:g} tasks, {sample['asyncio: timers']:g} timers, "
            f"{sample['network: connections']:g} connections, {sample['process: descriptors']:g} descriptors, "
            f"{sample['memory: blocks']:,.0f} blocks, {sample['memory: RSS MiB']:.0f} MiB"
        )

    def _sample(self) -> dict[str, float]:
        """Count everything that could leak."""
        gc.collect()
        loop, usage = self.simulation.loop, process_usage()
        sample: dict[str, float] = {
            "asyncio: tasks": len(asyncio.all_tasks(loop)),
            "asyncio: timers": sum(not timer.cancelled() for timer in loop._scheduled),
            "asyncio: timers, with cancelled": len(loop._scheduled),
            "network: connections": self.simulation.network.statistics().connections_open,
            "store: descriptors": len(self.disks.open_files),
            "process: descriptors": usage.fds,
            "memory: blocks": sys.getallocatedblocks(),
            "memory: RSS MiB": usage.rss_bytes / MIB,
        }
        cluster = self.cluster
        roots: dict[str, list[object]] = {
            "broker": [server.process for server in cluster.brokers.values()],
            "name server": [server.process for server in cluster.name_servers.values()],
            "consumer": [consumer.consumer for consumer in cluster.consumers],
            "producer": [producer.producer for producer in cluster.producers],
        }
        for kind, objects in roots.items():
            sizes = sum((table_sizes(each) for each in objects), Counter[str]())
            sample |= {f"{kind}: {name}": size for name, size in sizes.items()}
        return sample | {f"objects: {name}": n for name, n in object_counts().items()}

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _start_consumer(self, slot: str) -> SimulatedConsumer:
        """Start the consumer of a slot, which is its host: a host has one consumer at a time."""
        group = slot.partition("-")[0]
        return await self.cluster.start_consumer(
            group,
            dlq_topic(FAILING) if group == DLQ_READER else TOPIC,
            listener=self._listener(group),
            host=slot,
            session_timeout_s=10.0,
            shutdown_grace_s=3.0,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            max_workers=4,
            max_attempts=MAX_ATTEMPTS,
            retry_delay_ms=RETRY_DELAY_MS,
        )

    def _listener(self, group: str) -> Listener:
        random, invariants = self.simulation.random, self.invariants

        async def on_messages(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            for message in messages:
                producer, number = _HEAD.unpack(message.body)
                invariants.delivered(group, message.queue, message.offset)
                await anyio.sleep(random.random() * 0.05)
                invariants.ended(group, message.queue, message.offset)
                if group == DLQ_READER:
                    self.verdict.dead_letters += 1
                    invariants.consumed(FAILING, producer, number)
                elif group == FAILING and (number % 200 == 0 or random.random() < 0.02):
                    return ConsumeResult.RECONSUME_LATER
                else:
                    invariants.consumed(group, producer, number)
            return None

        return on_messages

    async def _produce(self, index: int) -> None:
        """Send at a rate, sequentially; the process is killed now and then, and another continues."""
        random = self.simulation.random
        pause_s = self.options.producers / self.options.rate
        number = 0
        while True:
            try:
                producer = await self.cluster.start_producer(host=f"producer-{index}")
            except RlabError:  # no name server can be reached now
                await anyio.sleep(1)
                continue
            lives_until = self.simulation.loop.time() + self.options.round_s * random.random()
            while self.simulation.loop.time() < lives_until:
                await self.sending.wait()
                try:
                    with self.simulation.on_host(producer.host):
                        result = await producer.producer.send(Message(TOPIC, _HEAD.pack(index, number)))
                except RlabError:
                    self.invariants.failed(index, number)
                else:
                    self.invariants.acknowledged(index, number, result.queue, result.offset)
                number += 1
                await anyio.sleep(pause_s * 2 * random.random())
            self.simulation.network.cut(producer.host)
            await producer.stop()
            self.cluster.producers.remove(producer)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulation.runs.torture", description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0, help="virtual hours, in rounds of five minutes")
    parser.add_argument("--seed", type=int, default=0, help="decides everything that is left to chance")
    parser.add_argument("--rate", type=float, default=20.0, help="messages per second")
    parser.add_argument("--levels", action="store_true", help="print everything that was counted")
    chosen = parser.parse_args(arguments)
    rounds = max(4, round(chosen.hours * 12))
    options = TortureOptions(seed=chosen.seed, rounds=rounds, rate=chosen.rate)

    logging.disable(logging.ERROR)  # clients and brokers log errors all the time, because of the faults
    with tempfile.TemporaryDirectory() as data_dir:
        verdict = run_torture(options, Path(data_dir), say)
    say("faults: " + ", ".join(f"{what} {n}" for what, n in sorted(verdict.faults.items())))
    for line in [*verdict.violations, *verdict.grown]:
        say(line)
    if chosen.levels:
        for name in sorted({name for sample in verdict.levels for name in sample}):
            say(f"{name}: {' '.join(f'{sample.get(name, 0):g}' for sample in verdict.levels)}")
    say("PASSED" if verdict.ok else "FAILED")
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
