"""A cluster tortured for an hour of virtual time: nothing acknowledged is lost, and nothing grows.

    python -m simulation.runs.torture --hours 1 --seed 7

Two name servers, two brokers with small segments, a group that does its work, a group that fails at it now and then or
for good, producers at a steady rate. Time goes in rounds. In the first two thirds of each, chance breaks things:
servers and clients crash, hang, stop and start again, connections are cut, hosts lose sight of each other, disks are
full. Then everything is made whole, must find its balance, and everything acknowledged must be consumed. In that moment
of rest everything is counted that could leak (`simulation/checks/leaks.py`), and the next round begins.

Invariant: equal options give equal histories; whatever is found is found again with its seed.
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
from broker.store.disk.options import MIB, StoreOptions
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

TOPIC, QUEUES = "orders", 8
WORKING, FAILING, DLQ_READER = "works", "fails", "buries"
"""Groups: one that works, one that fails now and then, and one that reads the dead letters of that."""
WHOLE_AGAIN_S = 60.0
"""How long the groups may take to find their balance once everything is whole, and then to catch up."""
REST_S = PULL_SUSPEND_S + REBALANCE_INTERVAL_S
"""How long nothing is sent before the count: every pull is held anew, and every member has looked at its group."""
MAX_ATTEMPTS, RETRY_DELAY_MS = 3, 1_500
_HEAD = struct.Struct(">IQ")
_MARGINS = {
    "consumer: EventLog._buffer": Margin(1.2, 200, trend=False),  # of the last second, whatever happened in it
    # Views of a group that no change made a member ask for again are those of the last pass that did.
    "consumer: GroupView._members_of": Margin(1.5, 64, trend=False),
    "consumer: GroupView.members": Margin(1.5, 64, trend=False),
    "memory: blocks": Margin(1.03, 5_000),
    "memory: RSS MiB": Margin(1.1, 16, trend=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TortureOptions:
    """Options of a run.

    Attributes:
        seed: decides everything that is left to chance.
        rounds: how many.
        round_s: how long each of them is, in virtual seconds; longer if the cluster takes longer to be whole again.
        consumers: in each of the two groups.
        producers: how many.
        rate: messages per second, of all producers together.
        warm_up: rounds whose counts do not matter.
        quirks: defects of the reference to reproduce; one that loses or mixes something up must be found.
    """

    seed: int = 0
    rounds: int = 12
    round_s: float = 300.0
    consumers: int = 10
    producers: int = 4
    rate: float = 20.0
    warm_up: int = 2
    quirks: frozenset[Quirk] = frozenset()


@dataclass(slots=True)
class TortureVerdict:
    """What came of a run.

    Attributes:
        violations: what must not have happened and did.
        grown: what there was more of in the second half than in the first.
        levels: everything that was counted, round by round.
        faults: how often what was done to the cluster.
        sent, failed_sends: messages acknowledged, and given up.
        deliveries, deliveries_again: calls of listeners, and those for a message that was delivered before.
        dead_letters: messages that the failing group gave up.
    """

    violations: list[str] = field(default_factory=list)
    grown: list[str] = field(default_factory=list)
    levels: list[dict[str, float]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    failed_sends: int = 0
    deliveries: int = 0
    deliveries_again: int = 0
    dead_letters: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations and not self.grown


def run_torture(
    options: TortureOptions, data_dir: Path, report: Callable[[str], object] = lambda line: None
) -> TortureVerdict:
    """Torture a cluster.

    Args:
        options: see `TortureOptions`.
        data_dir: brokers store below it.
        report: called with a line for each round.

    Returns:
        The verdict; a run that goes wrong ends with its round.
    """

    async def main(simulation: Simulation) -> TortureVerdict:
        disks = FillingDisks(data_dir)
        store = StoreOptions(segment_bytes=MIB // 4, tail_bytes=MIB // 32, index_cache_bytes=MIB // 64)
        cluster = SimulatedCluster(
            simulation,
            data_dir,
            name_servers=2,
            brokers=2,
            store=store,
            retention=RetentionOptions(retain_bytes=MIB),  # what is stored must not be what grows
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
        """Run all rounds, or up to the first that ends badly."""
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
        # What lives long has the time to grow: once everything is warm, one of each kind of server is spared.
        spared = [next(iter(self.cluster.name_servers)), next(iter(self.cluster.brokers))]
        faults.spared = spared if number >= self.options.warm_up else []
        await faults.chaos(self.options.round_s * 2 / 3)
        await faults.make_whole()
        problems = []
        try:
            balanced_s = await self.cluster.wait_converged(WHOLE_AGAIN_S, retry_topics=True)
        except NotConverged as error:
            balanced_s = WHOLE_AGAIN_S
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
        self.report(self._line(number, balanced_s))
        await anyio.sleep(max(0.0, ends_at - loop.time()))

    def _line(self, number: int, balanced_s: float) -> str:
        sample, check = self.leaks.samples[-1], self.invariants.checks[WORKING]
        return (
            f"round {number + 1:3} at {self.simulation.loop.time():7.0f} s: balanced in {balanced_s:5.1f} s, "
            f"{check.sent:,} sent, {check.failed_sends:,} given up, {self.invariants.deliveries:,} delivered, "
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
        consumer = self.cluster.make_consumer(
            group,
            host=slot,
            session_timeout_s=10.0,
            shutdown_grace_s=3.0,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            max_workers=4,
            max_attempts=MAX_ATTEMPTS,
            retry_delay_ms=RETRY_DELAY_MS,
        )
        try:
            topic = dlq_topic(FAILING) if group == DLQ_READER else TOPIC
            await consumer.consumer.subscribe(topic, self._listener(group))
            await consumer.start()
        except BaseException:
            self.cluster.consumers.remove(consumer)
            raise
        return consumer

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
        """Send at a rate, one after another; the process is killed now and then, and another takes over."""
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

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    logging.disable(logging.ERROR)  # clients and brokers complain all the time, and rightly
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
