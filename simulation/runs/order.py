"""Order under churn: ordered groups whose members join, leave, crash and hang while brokers restart.

    python -m simulation.runs.order --seeds 500

Each seed has a cluster of its own in virtual time. Producers send the numbers of each key one after another to the
key's queue. One group consumes in key order, one in queue order, with listeners that are slow and fail now and then,
some messages always. Random faults (`simulation/faults/torture_faults.py`) go on until enough members have joined,
left, crashed or hung; then all is repaired, and every message has to be settled, as `simulation/checks/order.py`
checks.

The queue of a key is picked once, from all queues. A producer that picked it again while a broker is down would take
another queue, because the queues of that broker are in no route, and later messages would overtake earlier ones.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from client.listeners.listener import ConsumeResult, Listener
from client.options import ConsumeOrder
from client.produce.queue_picker import select_by_key
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from simulation.checks.order import OrderCheck
from simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from simulation.cluster.cluster import NotConverged, SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.runs.scenario import SeedVerdict, run_seed, run_seeds, seeds_parser

TOPICS, QUEUES = ("orders", "payments"), 2
"""Topics, and the queues of each on each of the two brokers."""
MEMBERSHIP = ("join", "leave", "crash", "hang")
MAX_ATTEMPTS = 3
FAILS, POISONED = 0.1, "7"
"""How often a listener fails, and the last digit of keys whose second message always fails."""
KEYS = 100
"""Keys by default."""
PAUSES_S, WORK_S = (0.0, 0.0, 0.0, 4.0), (0.0, 0.02, 0.3, 2.0)
"""Limits of a producer's pause between messages, and of a listener's work on one; shorter if there are more keys."""
SESSION_S, GRACE_S = 4.0, 10.0
WHOLE_AGAIN_S = 120.0
"""How long the groups may take to converge after the repair, and then to catch up."""
_HEAD = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Options of a run.

    Attributes:
        orders: (group, the order that its consumers keep, the order that is checked).
    """

    seed: int = 0
    keys: int = KEYS  # how many; each has one producer
    numbers: int = 4  # messages of a key on average; the least is one
    changes: int = 50  # members that join, leave, crash or hang
    consumers: int = 4  # slots for members, in each group
    producers: int = 4
    orders: tuple[tuple[str, ConsumeOrder, ConsumeOrder], ...] = (
        ("keys", ConsumeOrder.KEY, ConsumeOrder.KEY),
        ("queues", ConsumeOrder.QUEUE, ConsumeOrder.QUEUE),
    )


@dataclass(slots=True)
class OrderVerdict(SeedVerdict):
    """Result of a run."""

    keys: int = 0  # how many it had
    starts: int = 0  # calls of listeners
    settled: int = 0  # messages processed or sent to the DLQ, summed over the groups

    @property
    def changes(self) -> int:
        """Members that joined, left, crashed or hung after the start."""
        return sum(self.faults[what] for what in MEMBERSHIP)


def run_order(options: OrderOptions) -> OrderVerdict:
    """Run one seed in a world and a directory of its own; equal options give equal verdicts."""
    return run_seed(options.seed, OrderVerdict, lambda *world: _OrderRun(options, *world).run())


class _OrderRun:
    """One run."""

    def __init__(self, options: OrderOptions, cluster: SimulatedCluster, disks: FillingDisks, tasks: TaskGroup) -> None:
        self.options, self.cluster, self.tasks = options, cluster, tasks
        self.simulation, self.random = cluster.simulation, cluster.simulation.random
        self.check = OrderCheck({group: kept is ConsumeOrder.KEY for group, _, kept in options.orders})
        self.order_of = {group: order for group, order, _ in options.orders}
        self.faults = Faults(cluster, disks, self._start_consumer)
        self.verdict = OrderVerdict(options.seed, keys=options.keys)
        self.sending = options.producers
        self.hurry = min(1.0, KEYS / options.keys)
        cluster.watchers += [self.check.watch, lambda event: cluster.events.clear()]
        cluster.client_options |= {"heartbeat_interval_s": SESSION_S / 4, "route_poll_interval_s": 2.0}

    async def run(self) -> OrderVerdict:
        """Send, break, repair, and wait until every message is settled."""
        verdict, check, loop = self.verdict, self.check, self.simulation.loop
        for topic in TOPICS:
            await self.cluster.create_topic(topic, queues=QUEUES)
        for group in self.order_of:
            for n in range(self.options.consumers):
                await self.faults.fill(f"{group}-{n}")
        for number in range(self.options.producers):
            producer = await self.cluster.start_producer(host=f"producer-{number}")
            self.tasks.start_soon(self._produce, producer, number)
        while sum(self.faults.done[what] for what in MEMBERSHIP) < self.options.changes and not check.violations:
            await self.faults.chaos(1.0)
        verdict.faults = self.faults.done.copy()
        await self.faults.make_whole()
        try:
            await self.cluster.wait_converged(WHOLE_AGAIN_S, retry_topics=True)
        except NotConverged as error:
            verdict.violations.append(str(error))
        until = loop.time() + WHOLE_AGAIN_S
        while (check.lag or self.sending) and loop.time() < until and not check.violations:  # noqa: ASYNC110
            await anyio.sleep(0.5)
        verdict.violations += check.violations or check.missing()
        verdict.starts, verdict.settled, verdict.took_s = check.starts, check.settled, loop.time()
        return verdict

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _produce(self, producer: SimulatedProducer, index: int) -> None:
        """Send the numbers of each of its keys, one after another; which key is next is chance, and some have many."""
        options, random = self.options, self.random
        brokers = sorted(self.cluster.brokers)
        queues = {topic: [MessageQueue(topic, name, n) for name in brokers for n in range(QUEUES)] for topic in TOPICS}
        mine = list(range(index, options.keys, options.producers))
        left = mine + [mine[int(len(mine) * random.random() ** 2)] for _ in range((options.numbers - 1) * len(mine))]
        random.shuffle(left)
        numbers: Counter[int] = Counter()
        for n in left:
            key, topic = f"key-{n}", TOPICS[n % len(TOPICS)]
            message = Message(topic, _HEAD.pack(numbers[n]), (key,))
            await self._send(producer, message, select_by_key(queues[topic], key))
            numbers[n] += 1
            await anyio.sleep(random.choice(PAUSES_S) * random.random() * self.hurry)
        self.sending -= 1

    async def _send(self, producer: SimulatedProducer, message: Message, queue: MessageQueue) -> None:
        """Send until it is acknowledged; it may be stored more than once."""
        while True:
            try:
                with self.simulation.on_host(producer.host):
                    result = await producer.producer.send(message, queue=queue)
            except RlabError:
                await anyio.sleep(0.5)
            else:
                self.verdict.sent += 1
                self.check.acknowledged(result.queue, result.offset, message.keys[0])
                return

    async def _start_consumer(self, slot: str) -> SimulatedConsumer:
        """Start the consumer of a slot, which is its host: a host has one consumer at a time."""
        group = slot.partition("-")[0]
        consumer = self.cluster.make_consumer(
            group,
            host=slot,
            order=self.order_of[group],
            suspend_s=max(0.01, 0.3 * self.hurry),
            max_attempts=MAX_ATTEMPTS,
            session_timeout_s=SESSION_S,
            shutdown_grace_s=GRACE_S,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        return await self.cluster.start_made(consumer, dict.fromkeys(TOPICS, self._listener(group, consumer)))

    def _listener(self, group: str, consumer: SimulatedConsumer) -> Listener:
        random, check = self.random, self.check

        async def on_messages(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            (message,) = messages
            (number,) = _HEAD.unpack(message.body)
            client, queue, offset, key = consumer.client_id, message.queue, message.offset, message.keys[0]
            check.started(group, client, queue, offset, key)
            try:
                await anyio.sleep(random.choice(WORK_S) * random.random() * self.hurry)
            finally:
                check.ended(group, client, queue, offset, key)
            if random.random() < FAILS or (number == 1 and key.endswith(POISONED)):
                if message.times_delivered >= MAX_ATTEMPTS:
                    check.processed(group, queue, offset, key, None)
                return ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT
            check.processed(group, queue, offset, key, number)
            return None

        return on_messages


# --- many seeds ------------------------------------------------------------------------------------------------------


def order_figures(verdict: OrderVerdict) -> str:
    """The counts of a verdict, in words."""
    sent = f"{verdict.keys:,} keys, {verdict.sent:,} sent, {verdict.starts:,} dispatched"
    return f"{sent}, {verdict.changes:,} changes of members"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = seeds_parser("simulation.runs.order", __doc__)
    parser.add_argument("--keys", type=int, default=OrderOptions().keys, help="keys in each")
    parser.add_argument("--numbers", type=int, default=OrderOptions().numbers, help="messages of a key on average")
    parser.add_argument("--changes", type=int, default=OrderOptions().changes, help="changes of members in each")
    chosen = parser.parse_args(arguments)

    def options_of(seed: int) -> OrderOptions:
        return OrderOptions(seed=seed, keys=chosen.keys, numbers=chosen.numbers, changes=chosen.changes)

    return run_seeds(chosen, OrderVerdict, options_of, run_order, order_figures)


if __name__ == "__main__":
    sys.exit(main())
