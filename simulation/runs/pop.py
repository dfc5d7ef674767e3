"""POP under faults: consumers of the same queues crash, hang and are slow while brokers restart.

    python -m simulation.runs.pop --seeds 500

Each seed has a cluster of its own in virtual time. One group pops all messages: push consumers in POP mode, some of
which work longer than the invisible time, and pop consumers that forget to acknowledge now and then. Some messages
always fail. After a time of random faults (`simulation/faults/torture_faults.py`) all is repaired, and every message
has to be acknowledged or a dead-letter message, as `simulation/checks/pop.py` checks.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup

from client.listeners.listener import ConsumeResult, Listener
from client.pop.message import PopMessage
from client.pop.requests import Acked, Dead, PopRequests
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.names import dlq_topic, retry_topic
from simulation.checks.pop import Place, PopCheck
from simulation.cluster.clients import SimulatedMember, SimulatedPopConsumer, SimulatedProducer
from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.runs.scenario import SeedVerdict, run_seed, run_seeds, seeds_parser

TOPIC, QUEUES, GROUP = "orders", 2, "group"
"""The topic, its queues on each of the two brokers, and the group that pops it."""
PUSH, POP, DLQ_READER = "push", "pop", "bury"
"""Kinds of consumers, which name their slots; the third kind reads the dead-letter messages."""
INVISIBLE_S = 3.0
WORK_S = (0.0, 0.0, 0.1, 1.0, 8.0)
"""Limits of a listener's work on a message, some longer than the invisible time."""
FAILS, FORGETS, POISONED = 0.1, 0.05, 29
"""How often a listener fails, how often a message is not acknowledged, and that one in 29 messages always fails."""
MAX_ATTEMPTS, RETRY_DELAY_MS = 6, 500
SESSION_S, GRACE_S = 4.0, 2.0
LOOK_S = 0.02
WHOLE_AGAIN_S = 180.0
"""How long the group may take to acknowledge everything after the repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopRunOptions:
    """Options of a run.

    Attributes:
        pushers, poppers: slots for consumers of each kind.
    """

    seed: int = 0
    messages: int = 300
    chaos_s: float = 30.0  # how long faults happen, in virtual seconds
    pushers: int = 4
    poppers: int = 2
    producers: int = 2


@dataclass(slots=True)
class PopVerdict(SeedVerdict):
    """Result of a run.

    Attributes:
        deliveries, again: deliveries to a consumer, and those of a message that had been delivered before.
    """

    deliveries: int = 0
    again: int = 0
    dead: int = 0  # dead-letter messages


def run_pop(options: PopRunOptions) -> PopVerdict:
    """Run one seed in a world and a directory of its own; equal options give equal verdicts."""
    return run_seed(options.seed, PopVerdict, lambda *world: _PopRun(options, *world).run())


class _PopRun:
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
        """Send, break, repair, and wait until every message is acknowledged or a dead-letter message."""
        verdict, check, loop, options = self.verdict, self.check, self.simulation.loop, self.options
        await self.cluster.create_topic(TOPIC, queues=QUEUES)
        slots = [f"{PUSH}-{n}" for n in range(options.pushers)] + [f"{POP}-{n}" for n in range(options.poppers)]
        for slot in [*slots, f"{DLQ_READER}-0"]:
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
        await anyio.sleep(3 * INVISIBLE_S)  # what is wrongly invisible is redelivered
        verdict.violations += check.violations or check.missing(self._left())
        verdict.deliveries, verdict.again, verdict.took_s = check.deliveries, check.again, loop.time()
        return verdict

    # --- brokers -----------------------------------------------------------------------------------------------------

    def _left(self) -> dict[Place, int]:
        """The group's lag in each queue that has one."""
        left: dict[Place, int] = {}
        for name, server in self.cluster.brokers.items():
            broker = server.running.broker
            for topic in (TOPIC, retry_topic(GROUP)):
                entry = broker.topics.table.get(topic)
                if entry is None:
                    continue
                for queue_id in range(entry.serves_below):
                    end = broker.store.max_offset(entry.topic_id, queue_id)
                    n = end - (broker.leases.offsets.read(GROUP, topic, queue_id) or 0)
                    if n:
                        left[name, f"{topic}:{queue_id}"] = n
        return left

    async def _look(self) -> None:
        """Report the invisible messages of all brokers to the check, every `LOOK_S`."""
        while True:
            overdue_s: dict[Place, float] = {}
            waited_for: dict[Place, int] = {}
            now = self.simulation.loop.time()
            pops = [(name, one.process.broker.pop) for name, one in self.cluster.brokers.items() if one.process]
            for name, pop in pops:
                for key, queue in pop.ledger.queues.items():
                    place = (name, f"{key.group} {key.topic}:{key.queue_id}")
                    deadline = queue.window.next_deadline()
                    if deadline is not None:
                        overdue_s[place] = now - deadline
                    if queue.window.due_count and pop.first_parked(key) is not None:
                        waited_for[place] = queue.window.due_count
            self.check.looked(overdue_s, waited_for, now)
            await anyio.sleep(LOOK_S)

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _produce(self, producer: SimulatedProducer) -> None:
        """Send until all are acknowledged; a message whose send failed is sent again under another number."""
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
            assert popper.consumer._receiver is not None, "it was started"
            watch_acknowledgements(popper.consumer._receiver.requests, self.check, self.simulation.loop)
            popper.consumer._background.start_soon(self._pop, popper)
            return popper
        consumer = self.cluster.make_consumer(
            GROUP if kind == PUSH else DLQ_READER,
            mode="pop",
            invisible_s=INVISIBLE_S,
            max_attempts=MAX_ATTEMPTS,
            retry_delay_ms=RETRY_DELAY_MS,
            shutdown_grace_s=GRACE_S,
            **shared,
        )
        topic, listener = (TOPIC, self._listener(consumer)) if kind == PUSH else (dlq_topic(GROUP), self._on_dead)
        await self.cluster.start_made(consumer, {topic: listener})
        if kind == PUSH:
            assert consumer.consumer._popped is not None, "it pops"
            watch_acknowledgements(consumer.consumer._popped.requests, self.check, self.simulation.loop)
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
        """Receive and acknowledge until the consumer ends."""
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


def watch_acknowledgements(requests: PopRequests, check: PopCheck, loop: asyncio.AbstractEventLoop) -> None:
    """Report every acknowledgement of a consumer to the check, when it is sent and when it is answered.

    Only the answer shows that a message is acknowledged: a consumer that is killed may have had it, or not. The two
    methods of `requests` that acknowledge are replaced.
    """
    shipped, shipped_start = requests.ack, requests.start_ack

    def begin(broker_name: str, acked: Acked) -> Callable[[Dead], None]:
        every = [
            (MessageQueue(topic, broker_name, queue_id), offset)
            for (topic, queue_id, _), offsets in acked.items()
            for offset in offsets
        ]
        for queue, offset in every:
            check.acknowledging(queue, offset)

        def end(dead: Dead) -> None:
            now = loop.time()
            for queue, offset in every:
                if (queue.topic, queue.queue_id, offset) not in dead:
                    check.acknowledged(queue, offset, now)

        return end

    async def ack(broker_name: str, acked: Acked) -> Dead:
        end = begin(broker_name, acked)
        dead = await shipped(broker_name, acked)
        end(dead)
        return dead

    def start_ack(broker_name: str, acked: Acked, answered: Callable[[Dead | RlabError], None]) -> bool:
        end = begin(broker_name, acked)

        def note(outcome: Dead | RlabError) -> None:
            if not isinstance(outcome, RlabError):
                end(outcome)
            answered(outcome)

        return shipped_start(broker_name, acked, note)

    requests.ack, requests.start_ack = ack, start_ack  # type: ignore[method-assign]


# --- many seeds ------------------------------------------------------------------------------------------------------


def pop_figures(verdict: PopVerdict) -> str:
    """The counts of a verdict, in words."""
    return f"{verdict.sent:,} sent, {verdict.deliveries:,} delivered, {verdict.again:,} again, {verdict.dead:,} dead"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = seeds_parser("simulation.runs.pop", __doc__)
    parser.add_argument("--messages", type=int, default=PopRunOptions().messages, help="messages in each")
    parser.add_argument("--chaos", type=float, default=PopRunOptions().chaos_s, help="seconds of faults in each")
    chosen = parser.parse_args(arguments)

    def options_of(seed: int) -> PopRunOptions:
        return PopRunOptions(seed=seed, messages=chosen.messages, chaos_s=chosen.chaos)

    return run_seeds(chosen, PopVerdict, options_of, run_pop, pop_figures)


if __name__ == "__main__":
    sys.exit(main())
