"""POP under faults: consumers that share single messages crash, hang and are slow while brokers restart.

    python -m simulation.runs.pop --seeds 500

For each seed a cluster of its own in virtual time. One group pops everything: push consumers in the mode pop, of which
some work longer than a message is invisible, and pop consumers that forget to acknowledge now and then; some messages
fail for good. Chance breaks things (`simulation/faults/torture_faults.py`); then everything is made whole, and every
message has to be acknowledged or a dead letter. `simulation/checks/pop.py` keeps the books.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from broker.server import RunningBroker
from broker.store.disk.options import MIB, StoreOptions
from client.listeners.listener import ConsumeResult, Listener
from client.pop.message import PopMessage
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.names import dlq_topic, retry_topic
from remoting.tasks import background_tasks
from simulation.checks.pop import Place, PopCheck
from simulation.checks.pop_watch import watch_acknowledgements
from simulation.cluster.clients import SimulatedMember, SimulatedPopConsumer, SimulatedProducer
from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.kernel.run import Simulation, run_simulation
from simulation.runs.many_seeds import faults_line, run_seeds, say, seeds_parser, verdict_line

TOPIC, QUEUES, GROUP = "orders", 2, "group"
"""The topic, its queues on each of the two brokers, and who pops it."""
PUSH, POP, BURY = "push", "pop", "bury"
"""What the consumer of a slot is: that reads the dead letters the third."""
INVISIBLE_S = 3.0
WORK_S = (0.0, 0.0, 0.1, 1.0, 8.0)
"""Up to how long a listener works on a message: some longer than it is invisible."""
FAILS, FORGETS, POISONED = 0.1, 0.05, 29
"""How often a listener fails, how often a message is not acknowledged, and one of how many always fails."""
MAX_ATTEMPTS, RETRY_DELAY_MS = 6, 500
SESSION_S, GRACE_S = 4.0, 2.0
LOOK_S = 0.02
WHOLE_AGAIN_S = 180.0
"""How long the group may take to end everything once everything is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopRunOptions:
    """Options of a run.

    Attributes:
        seed: decides everything that is left to chance.
        messages: how many.
        chaos_s: how long things break, in virtual seconds.
        pushers, poppers: slots for consumers of each kind.
        producers: how many.
    """

    seed: int = 0
    messages: int = 300
    chaos_s: float = 30.0
    pushers: int = 4
    poppers: int = 2
    producers: int = 2


@dataclass(slots=True)
class PopVerdict:
    """What came of a run.

    Attributes:
        seed: its seed.
        violations: what must not have happened and did.
        faults: how often what was done to the cluster.
        sent: messages that brokers have.
        deliveries, again: how often one was handed to a consumer, and how often it had been before.
        dead: dead letters.
        took_s: virtual seconds.
    """

    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    deliveries: int = 0
    again: int = 0
    dead: int = 0
    took_s: float = 0.0


def run_pop(options: PopRunOptions) -> PopVerdict:
    """Run one seed in a world and a directory of its own; equal options give equal verdicts."""

    async def main(simulation: Simulation, data_dir: Path) -> PopVerdict:
        disks = FillingDisks(data_dir)
        store = StoreOptions(segment_bytes=MIB // 4, tail_bytes=MIB // 32, index_cache_bytes=MIB // 64)
        cluster = SimulatedCluster(simulation, data_dir, name_servers=1, brokers=2, store=store, files=disks)
        async with cluster, background_tasks() as tasks:
            return await _Run(options, cluster, disks, tasks).run()

    with tempfile.TemporaryDirectory() as root:
        try:
            return run_simulation(partial(main, data_dir=Path(root)), seed=options.seed, jitter_s=0.001)
        except (AssertionError, ExceptionGroup) as error:  # of a broker or a client; other seeds are to be seen, too
            logging.getLogger(__name__).critical("seed %d", options.seed, exc_info=error)
            return PopVerdict(options.seed, [f"broken: {error}"])


class _Run:
    """One run."""

    def __init__(
        self, options: PopRunOptions, cluster: SimulatedCluster, disks: FillingDisks, tasks: TaskGroup
    ) -> None:
        self.options, self.cluster, self.tasks = options, cluster, tasks
        self.simulation, self.random = cluster.simulation, cluster.simulation.random
        self.check = PopCheck()
        self.faults = Faults(cluster, disks, self._start_consumer)
        self.verdict = PopVerdict(options.seed)
        self.sending = options.producers
        self.numbers = count()
        self.is_calm = False
        cluster.watchers.append(lambda event: cluster.events.clear())
        cluster.client_options |= {"heartbeat_interval_s": SESSION_S / 4, "route_poll_interval_s": 2.0}

    async def run(self) -> PopVerdict:
        """Send, break, repair, and wait until every message is ended."""
        verdict, check, loop, options = self.verdict, self.check, self.simulation.loop, self.options
        await self.cluster.create_topic(TOPIC, queues=QUEUES)
        slots = [f"{PUSH}-{n}" for n in range(options.pushers)] + [f"{POP}-{n}" for n in range(options.poppers)]
        for slot in [*slots, f"{BURY}-0"]:
            await self.faults.fill(slot)
        self.tasks.start_soon(self._look)
        for index in range(options.producers):
            producer = await self.cluster.start_producer(host=f"producer-{index}", retries=0)
            self.tasks.start_soon(self._produce, producer)
        await self.faults.chaos(options.chaos_s)
        verdict.faults = self.faults.done.copy()
        await self.faults.make_whole()
        self.is_calm = True
        until = loop.time() + WHOLE_AGAIN_S
        while (check.lag or self.sending or self._left()) and loop.time() < until and not check.violations:  # noqa: ASYNC110
            await anyio.sleep(0.5)
        await anyio.sleep(3 * INVISIBLE_S)  # whatever is wrongly in flight comes again
        verdict.violations += check.violations or check.missing(self._left())
        verdict.deliveries, verdict.again, verdict.took_s = check.deliveries, check.again, loop.time()
        return verdict

    # --- brokers -----------------------------------------------------------------------------------------------------

    def _left(self) -> dict[Place, int]:
        """Messages of each queue that the group has not ended."""
        left: dict[Place, int] = {}
        for name, server in self.cluster.brokers.items():
            broker = server.running.broker
            for topic in (TOPIC, retry_topic(GROUP)):
                entry = broker.topics.get(topic)
                if entry is None:
                    continue
                for queue_id in range(entry.serves_below):
                    end = broker.store.max_offset(entry.topic_id, queue_id)
                    n = end - (broker.offsets.read(GROUP, topic, queue_id) or 0)
                    if n:
                        left[name, f"{topic}:{queue_id}"] = n
        return left

    async def _look(self) -> None:
        """Look at what brokers have in flight, again and again."""
        while True:
            overdue_s: dict[Place, float] = {}
            waited_for: dict[Place, int] = {}
            now = self.simulation.loop.time()
            for name, server in self.cluster.brokers.items():
                if server.process is not None:
                    self._look_at(name, server.process, now, overdue_s, waited_for)
            self.check.looked(overdue_s, waited_for, now)
            await anyio.sleep(LOOK_S)

    def _look_at(
        self,
        name: str,
        running: RunningBroker,
        now: float,
        overdue_s: dict[Place, float],
        waited_for: dict[Place, int],
    ) -> None:
        pops = running.broker.pops
        for key, window in pops.ledger.windows.items():
            place = (name, f"{key.group} {key.topic}:{key.queue_id}")
            deadline = window.queue.next_deadline()
            if deadline is not None:
                overdue_s[place] = now - deadline
            if window.queue.due_count and pops._waiters.waits(key.topic, key.group):
                waited_for[place] = window.queue.due_count

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _produce(self, producer: SimulatedProducer) -> None:
        """Send until all are sent; what may have been stored is sent again under another number."""
        while self.verdict.sent < self.options.messages:
            body = b"%d" % next(self.numbers)
            try:
                await producer.send(TOPIC, body)
            except RlabError:
                await anyio.sleep(0.5)
            else:
                self.verdict.sent += 1
                self.check.sent(body)
            if not self.is_calm:
                await anyio.sleep(self.random.random() * self.options.chaos_s / self.options.messages * 3)
        self.sending -= 1

    async def _start_consumer(self, slot: str) -> SimulatedMember:
        kind = slot.partition("-")[0]
        shared: dict[str, Any] = {
            "host": slot,
            "session_timeout_s": SESSION_S,
            "consume_from": ConsumeFrom.FIRST_OFFSET,
        }
        if kind == POP:
            popper = await self.cluster.start_popper(GROUP, TOPIC, max_attempts=MAX_ATTEMPTS, **shared)
            assert popper.consumer._requests is not None, "it was started"
            watch_acknowledgements(popper.consumer._requests, self.check, self.simulation.loop)
            popper.consumer._background.start_soon(self._pop, popper)
            return popper
        consumer = self.cluster.make_consumer(
            GROUP if kind == PUSH else BURY,
            mode="pop",
            invisible_s=INVISIBLE_S,
            max_attempts=MAX_ATTEMPTS,
            retry_delay_ms=RETRY_DELAY_MS,
            shutdown_grace_s=GRACE_S,
            **shared,
        )
        topic, listener = (TOPIC, self._listener(consumer)) if kind == PUSH else (dlq_topic(GROUP), self._on_dead)
        try:
            await consumer.consumer.subscribe(topic, listener)
            await consumer.start()
        except BaseException:
            self.cluster.consumers.remove(consumer)
            raise
        if kind == PUSH:
            assert consumer.consumer._popped is not None, "it pops"
            watch_acknowledgements(consumer.consumer._popped._requests, self.check, self.simulation.loop)
        return consumer

    def _delivered(self, member: SimulatedMember, messages: Sequence[MessageExt]) -> None:
        now = self.simulation.loop.time()
        for message in messages:
            self.check.delivered(member.client_id, message.queue, message.offset, message.body, now)

    def _listener(self, member: SimulatedMember) -> Listener:
        random = self.random

        async def on_messages(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            self._delivered(member, messages)
            await anyio.sleep(random.choice(WORK_S) * random.random())
            fails = random.random() < FAILS or any(int(message.body) % POISONED == 0 for message in messages)
            return ConsumeResult.RECONSUME_LATER if fails else None

        return on_messages

    async def _pop(self, popper: SimulatedPopConsumer) -> None:
        """Receive and acknowledge until the end of the consumer."""
        random = self.random
        while True:
            try:
                messages = await popper.receive(random.choice((1, 4, 32)), invisible_s=INVISIBLE_S, wait_s=5.0)
                self._delivered(popper, messages)
                await anyio.sleep(random.choice(WORK_S) * random.random())
                if messages and random.random() < 0.2:
                    await popper.extend(messages[0], random.choice((0.0, 1.0, 10.0)))
                await popper.ack([message for message in messages if self._is_processed(message)])
            except RlabError:
                await anyio.sleep(0.2)

    def _is_processed(self, message: PopMessage) -> bool:
        return self.random.random() >= FORGETS and int(message.body) % POISONED > 0

    async def _on_dead(self, messages: Sequence[MessageExt]) -> None:
        for message in messages:
            self.verdict.dead += 1
            self.check.dead_letter(message.body)


# --- many seeds ------------------------------------------------------------------------------------------------------


def pop_line(verdict: PopVerdict) -> str:
    """What came of a seed, in a line, and each violation in one more."""
    return verdict_line(verdict, _counts(verdict))


def _counts(verdict: PopVerdict) -> str:
    return f"{verdict.sent:,} sent, {verdict.deliveries:,} handed out, {verdict.again:,} again, {verdict.dead:,} dead"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = seeds_parser("simulation.runs.pop", __doc__)
    parser.add_argument("--messages", type=int, default=PopRunOptions().messages, help="messages in each")
    parser.add_argument("--chaos", type=float, default=PopRunOptions().chaos_s, help="seconds of faults in each")
    chosen = parser.parse_args(arguments)
    every = [
        PopRunOptions(seed=seed, messages=chosen.messages, chaos_s=chosen.chaos)
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    ]
    total, failed = PopVerdict(-1), 0
    for verdict in run_seeds(run_pop, every, chosen.processes, pop_line):
        total.faults += verdict.faults
        total.sent += verdict.sent
        total.deliveries += verdict.deliveries
        total.again += verdict.again
        total.dead += verdict.dead
        failed += bool(verdict.violations)
    say(f"{chosen.seeds} seeds, {failed} failed; {_counts(total)}; {faults_line(total.faults)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
