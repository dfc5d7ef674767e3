"""Order under churn: ordered groups whose members join, leave, crash and hang while brokers restart.

    python -m simulation.runs.order --seeds 500

For each seed a cluster of its own in virtual time. Producers send the numbers of each key one after another to the
key's queue; one group consumes in the order of keys, one in that of queues, with listeners that take their time and
fail now and then, some of them for good. Chance breaks things (`simulation/faults/torture_faults.py`) until the members
have changed often enough; then everything is made whole, and every message has to be settled.
`simulation/checks/order.py` keeps the books.

A key's queue is chosen once, as the producer's `key=` does among all queues. While a broker is away its queues are in
no route, and a key that is chosen anew goes to another queue, and from there its messages overtake the earlier ones.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from broker.store.disk.options import MIB, StoreOptions
from client.listeners.listener import ConsumeResult, Listener
from client.options import ConsumeOrder
from client.produce.queue_picker import select_by_key
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from remoting.tasks import background_tasks
from simulation.checks.order import OrderCheck
from simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from simulation.cluster.cluster import NotConverged, SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.kernel.run import Simulation, run_simulation
from simulation.runs.many_seeds import faults_line, run_seeds, say, seeds_parser, verdict_line

TOPICS, QUEUES = ("orders", "payments"), 2
"""Topics, and the queues of each on each of the two brokers."""
MEMBERSHIP = ("join", "leave", "crash", "hang")
MAX_ATTEMPTS = 3
FAILS, POISONED = 0.1, "7"
"""How often a listener fails; and the last digit of keys whose second message always does."""
KEYS = 100
"""Keys, where no number is given."""
PAUSES_S, WORK_S = (0.0, 0.0, 0.0, 4.0), (0.0, 0.02, 0.3, 2.0)
"""Up to how long a producer waits between two messages, and a listener takes for one; with more keys so much less."""
SESSION_S, GRACE_S = 4.0, 10.0
WHOLE_AGAIN_S = 120.0
"""How long the groups may take to find their balance once everything is whole, and then to catch up."""
_HEAD = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Options of a run.

    Attributes:
        seed: decides everything that is left to chance.
        keys: how many.
        numbers: messages of a key on average; the least is one.
        changes: members that join, leave, crash or hang.
        consumers: slots for members, in each group.
        producers: how many; each has its share of the keys.
        orders: group -> what its consumers keep in order, and what the books say they have to.
    """

    seed: int = 0
    keys: int = KEYS
    numbers: int = 4
    changes: int = 50
    consumers: int = 4
    producers: int = 4
    orders: tuple[tuple[str, ConsumeOrder, ConsumeOrder], ...] = (
        ("keys", ConsumeOrder.KEY, ConsumeOrder.KEY),
        ("queues", ConsumeOrder.QUEUE, ConsumeOrder.QUEUE),
    )


@dataclass(slots=True)
class OrderVerdict:
    """What came of a run.

    Attributes:
        seed: its seed.
        violations: what must not have happened and did.
        faults: how often what was done to the cluster.
        sent: messages acknowledged.
        starts: calls of listeners.
        settled: messages processed or given up, summed over the groups.
        took_s: virtual seconds.
    """

    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    starts: int = 0
    settled: int = 0
    took_s: float = 0.0

    @property
    def changes(self) -> int:
        """Members that joined, left, crashed or hung after the start."""
        return sum(self.faults[what] for what in MEMBERSHIP)


def run_order(options: OrderOptions) -> OrderVerdict:
    """Run one seed in a world and a directory of its own; equal options give equal verdicts.

    What breaks a run down is a violation too.
    """

    async def main(simulation: Simulation, data_dir: Path) -> OrderVerdict:
        disks = FillingDisks(data_dir)
        store = StoreOptions(segment_bytes=MIB // 4, tail_bytes=MIB // 32, index_cache_bytes=MIB // 64)
        cluster = SimulatedCluster(simulation, data_dir, name_servers=1, brokers=2, store=store, files=disks)
        async with cluster:
            return await _Run(options, cluster, disks).run()

    with tempfile.TemporaryDirectory() as root:
        try:
            return run_simulation(partial(main, data_dir=Path(root)), seed=options.seed, jitter_s=0.001)
        except (RlabError, AssertionError, ExceptionGroup) as error:
            # One seed that breaks down must not hide what the others show.
            return OrderVerdict(options.seed, [f"broke down: {error!r}"])


class _Run:
    """One run."""

    def __init__(self, options: OrderOptions, cluster: SimulatedCluster, disks: FillingDisks) -> None:
        self.options, self.cluster = options, cluster
        self.simulation, self.random = cluster.simulation, cluster.simulation.random
        self.check = OrderCheck({group: kept is ConsumeOrder.KEY for group, _, kept in options.orders})
        self.order_of = {group: order for group, order, _ in options.orders}
        self.faults = Faults(cluster, disks, self._start_consumer)
        self.verdict = OrderVerdict(options.seed)
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
        async with background_tasks() as tasks:
            for number in range(self.options.producers):
                producer = await self.cluster.start_producer(host=f"producer-{number}")
                tasks.start_soon(self._produce, producer, number)
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
        try:
            for topic in TOPICS:
                await consumer.consumer.subscribe(topic, self._listener(group, consumer))
            await consumer.start()
        except BaseException:
            self.cluster.consumers.remove(consumer)
            raise
        return consumer

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


def order_line(verdict: OrderVerdict) -> str:
    """What came of a seed, in a line, and each violation in one more."""
    what = f"{verdict.changes} changes of members; {verdict.sent:,} sent, {verdict.starts:,} handed out"
    return verdict_line(verdict, what)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = seeds_parser("simulation.runs.order", __doc__)
    parser.add_argument("--keys", type=int, default=OrderOptions().keys, help="keys in each")
    parser.add_argument("--numbers", type=int, default=OrderOptions().numbers, help="messages of a key on average")
    parser.add_argument("--changes", type=int, default=OrderOptions().changes, help="changes of members in each")
    chosen = parser.parse_args(arguments)
    every = [
        OrderOptions(seed=seed, keys=chosen.keys, numbers=chosen.numbers, changes=chosen.changes)
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    ]
    total, failed = OrderVerdict(-1), 0
    for verdict in run_seeds(run_order, every, chosen.processes, order_line):
        total.faults += verdict.faults
        total.sent += verdict.sent
        total.starts += verdict.starts
        failed += bool(verdict.violations)
    say(
        f"{chosen.seeds} seeds, {failed} failed; {chosen.seeds * chosen.keys:,} keys, {total.sent:,} sent, "
        f"{total.starts:,} handed out, {total.changes:,} changes of members; {faults_line(total.faults)}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
