"""Programmes of joins, crashes, cuts and restarts that a seed decides: afterwards everything is as it should be.

While a programme runs, every event is checked: a lease has one holder, and no commit passes a message that nobody
finished. When it is over and everything is whole again, the group converges within a stated time and finishes every
message that was acknowledged to its producer. A failure shows the seed and the programme.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest

from model.errors import RlabError
from model.events import Event, EventKind
from model.heartbeat import ConsumeFrom
from model.limits import HEARTBEAT_INTERVAL_S, RECONNECT_MAX_S, ROUTE_POLL_INTERVAL_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.servers import SimulatedServer
from simulation.kernel.network import Fault
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

SEEDS = range(24)
STEPS = 25
GROUPS, TOPICS = ("g", "h"), ("t", "u")
MAX_CONSUMERS = 6
SESSION_S = 10.0
WHOLE_AGAIN_S = ROUTE_POLL_INTERVAL_S + HEARTBEAT_INTERVAL_S + RECONNECT_MAX_S
"""The poll that shows the brokers again, the heartbeat that a lost one waits for, and the longest back-off."""
DRAINED_S = 30.0
"""Then what is left is consumed: the slowest message takes 6 s, and a failed one waits 5 s more."""


@dataclass
class Invariants:
    """What must hold at every moment, checked with every event."""

    cluster: SimulatedCluster
    holders: dict[tuple[str, MessageQueue], tuple[str, int]] = field(default_factory=dict)
    commits: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    finished: dict[tuple[str, MessageQueue], set[int]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def watch(self, event: Event) -> None:
        at = event.group, MessageQueue(event.topic, event.broker, event.queue_id)
        if event.kind == EventKind.LOCK_GRANTED:
            holder = self.holders.get(at)
            if holder is not None and holder[0] != event.client:
                self.violations.append(f"{event} although it is held by {holder}")
            self.holders[at] = event.client, event.version
        elif event.kind in (EventKind.QUEUE_RELEASED, EventKind.LOCK_EXPIRED):
            if self.holders.pop(at, (event.client, 0))[0] != event.client:
                self.violations.append(f"{event} although another member holds it")
        elif event.kind == EventKind.OFFSET_COMMITTED:
            if event.offset < self.commits.get(at, 0):
                self.violations.append(f"{event} goes back from {self.commits[at]}")
            self.commits[at] = event.offset
            unfinished = set(range(event.offset)) - self.finished.get(at, set())
            if unfinished:
                self.violations.append(f"{event} passes {sorted(unfinished)[:5]}, which nobody finished")

    async def consume(self, group: str, message: MessageExt) -> None:
        """Take some time that chance decides, sometimes long, and sometimes fail."""
        chance = self.cluster.simulation.random.random()
        await anyio.sleep(chance * 0.02 if chance < 0.995 else 6.0)
        # A failed one is done here, too: it goes to the retry topic.
        self.finished.setdefault((group, message.queue), set()).add(message.offset)
        if self.cluster.simulation.random.random() < 0.002:
            raise ValueError("bad luck")


class Programme:
    """Random steps on one cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.random = cluster.simulation.random
        self.invariants = Invariants(cluster)
        self.log: list[str] = []
        self.pause_s = 0.1
        self.faults: list[Fault] = []
        self.hung: dict[SimulatedConsumer, Fault] = {}
        cluster.watchers.append(self.invariants.watch)
        cluster.client_options |= {"heartbeat_interval_s": SESSION_S / 4}

    def note(self, what: str) -> None:
        self.log.append(f"{self.cluster.simulation.loop.time():8.3f} {what}")

    @property
    def live(self) -> list[SimulatedConsumer]:
        return [consumer for consumer in self.cluster.consumers if consumer.live]

    @property
    def servers(self) -> dict[str, SimulatedServer[Any]]:
        return {**self.cluster.name_servers, **self.cluster.brokers}

    # --- steps -------------------------------------------------------------------------------------------------------

    async def join(self, group: str = "") -> None:
        if group or len(self.live) + len(self.hung) < MAX_CONSUMERS:
            group = group or self.random.choice(GROUPS)
            consumer = self.cluster.make_consumer(
                group,
                session_timeout_s=SESSION_S,
                shutdown_grace_s=3.0,
                consume_from=ConsumeFrom.FIRST_OFFSET,
                retry_delay_ms=5000,
            )
            self.note(f"join {consumer.host} {group}")
            for topic in TOPICS:
                await consumer.subscribe(topic, work=partial(self.invariants.consume, group))
            try:
                await consumer.start()
            except RlabError as error:
                self.note(f"{consumer.host} did not start: {error}")

    async def leave(self) -> None:
        if self.live:
            consumer = self.random.choice(self.live)
            self.note(f"leave {consumer.host}")
            await consumer.stop()

    async def crash(self) -> None:
        if self.live:
            consumer = self.random.choice(self.live)
            self.note(f"crash {consumer.host}")
            await consumer.crash()

    async def hang(self) -> None:
        if self.live:
            consumer = self.random.choice(self.live)
            self.note(f"hang {consumer.host}")
            self.hung[consumer] = consumer.hang()

    async def wake(self) -> None:
        if self.hung:
            consumer = self.random.choice(list(self.hung))
            self.note(f"wake {consumer.host}")
            self.hung.pop(consumer).heal()
            consumer.live = True

    async def change(self) -> None:
        """Give the second topic up, or take it up again."""
        if self.live:
            consumer = self.random.choice(self.live)
            try:
                if TOPICS[1] in consumer.consumer.topics():
                    self.note(f"{consumer.host} gives {TOPICS[1]} up")
                    await consumer.unsubscribe(TOPICS[1])
                else:
                    self.note(f"{consumer.host} takes {TOPICS[1]} up")
                    await consumer.subscribe(TOPICS[1], work=partial(self.invariants.consume, consumer.group))
            except RlabError as error:
                self.note(f"{consumer.host}: {error}")

    async def cut(self) -> None:
        hosts = [*self.cluster.brokers, *self.cluster.name_servers, *(consumer.host for consumer in self.live)]
        host = self.random.choice(hosts)
        self.note(f"cut {host}")
        self.cluster.simulation.network.cut(host)

    async def partition(self) -> None:
        hosts = [*self.cluster.name_servers, *self.cluster.brokers, *(each.host for each in self.live), "p"]
        a, b = self.random.sample(hosts, 2)
        one_way = self.random.random() < 0.3
        self.note(f"partition {a} {b} {'one way' if one_way else ''}")
        self.faults.append(self.cluster.simulation.network.partition(a, b, one_way=one_way))

    async def heal(self) -> None:
        if self.faults:
            fault = self.faults.pop(self.random.randrange(len(self.faults)))
            self.note(f"heal {fault}")
            fault.heal()

    async def stop_server(self) -> None:
        name = self.random.choice([name for name, server in self.servers.items() if server.process] or [""])
        if name:
            how = self.random.choice(["stop", "crash", "crash"])
            self.note(f"{how} {name}")
            await (self.servers[name].stop() if how == "stop" else self.servers[name].crash())

    async def start_server(self) -> None:
        for name, server in self.servers.items():
            if not server.process:
                self.note(f"start {name}")
                await server.start()
                return

    # --- the whole ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        steps: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.join, 6),
            (self.leave, 2),
            (self.crash, 2),
            (self.hang, 1),
            (self.wake, 2),
            (self.cut, 3),
            (self.change, 2),
            (self.partition, 2),
            (self.heal, 3),
            (self.stop_server, 2),
            (self.start_server, 4),
        ]
        functions, weights = [step for step, _ in steps], [weight for _, weight in steps]
        for _ in range(STEPS):
            await self.random.choices(functions, weights)[0]()
            await anyio.sleep(self.random.choice([0.0, 0.002, 0.1, 1.0, 5.0, 12.0]) * self.random.random())

    async def send(self, producer: SimulatedProducer) -> None:
        number = 0
        while True:
            number += 1
            try:
                await producer.send(self.random.choice(TOPICS), b"%d" % number)
            except RlabError as error:
                self.note(f"message {number}: {type(error).__name__}")
            await anyio.sleep(self.random.random() * self.pause_s)

    async def make_whole(self) -> None:
        self.note("make whole")
        self.pause_s = 2.0
        for fault in (*self.faults, *self.hung.values()):
            fault.heal()
        for consumer in self.hung:
            consumer.live = True
        while any(not server.process for server in self.servers.values()):
            await self.start_server()
        for group in GROUPS:
            # Whatever else there is, somebody reads everything.
            await self.join(group)


async def scenario(cluster: SimulatedCluster) -> tuple[float, int]:
    """Returns when it had settled, in seconds, and how many messages were acknowledged."""
    programme = Programme(cluster)
    producer = await cluster.start_producer(host="p")
    try:
        for topic in TOPICS:
            await cluster.create_topic(topic, queues=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(programme.send, producer)
            await programme.run()
            await programme.make_whole()
            took_s = await settled(cluster)
            tasks.cancel_scope.cancel()
        await anyio.sleep(DRAINED_S)
        for group in GROUPS:
            members = [consumer for consumer in cluster.consumers if consumer.group == group]
            finished = {delivery.body for member in members for delivery in member.deliveries if delivery.finished}
            assert sorted(producer.acknowledged.keys() - finished, key=int) == [], f"acknowledged, and lost to {group}"
        assert programme.invariants.violations == []
        assert cluster.differences(retry_topics=True) == []
        assert took_s <= WHOLE_AGAIN_S
        return took_s, len(producer.acknowledged)
    except BaseException as error:
        error.add_note("\n".join(programme.log))
        raise


async def settled(cluster: SimulatedCluster) -> float:
    """When the group was last seen not where it should be, in seconds from now; looks for twice the time it has."""
    started_s = cluster.simulation.loop.time()
    took_s = 0.0
    while cluster.simulation.loop.time() - started_s < 2 * WHOLE_AGAIN_S:
        await anyio.sleep(0.5)
        if cluster.differences(retry_topics=True):
            took_s = cluster.simulation.loop.time() - started_s
    return took_s


@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_faults_the_group_converges_and_nothing_acknowledged_is_lost(simulate: Simulate, seed: int) -> None:
    _, acknowledged = simulate(scenario, seed=seed, name_servers=2, brokers=2)
    assert acknowledged > 0
