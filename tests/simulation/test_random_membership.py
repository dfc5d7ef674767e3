"""Members join, leave and change their topics in an order that a seed decides, under load and without a fault.

That is what a group lives with every day, so it has to cost nothing: no message is lost, none is done twice, and a
queue is orphaned for no longer than its listener needs to finish what it has.
"""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

SEEDS = range(12)
STEPS = 25
LISTENER_S = 0.05
"""The longest that a listener takes for a message."""
SETTLED_S = 0.5
"""A notification window, the listener's time, and some round trips."""


class Day:
    """Everyday steps on one cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.random = cluster.simulation.random
        self.log: list[str] = []

    @property
    def live(self) -> list[SimulatedConsumer]:
        return [consumer for consumer in self.cluster.consumers if consumer.live]

    async def work(self, message: MessageExt) -> None:
        await anyio.sleep(self.random.random() * LISTENER_S)

    async def join(self) -> None:
        group = self.random.choice(["g", "h"])
        consumer = self.cluster.make_consumer(group, consume_from=ConsumeFrom.FIRST_OFFSET)
        self.log.append(f"join {consumer.host} {group}")
        await consumer.subscribe("t", work=self.work)
        await consumer.subscribe("u", work=self.work)
        await consumer.start()

    async def leave(self) -> None:
        groups = Counter(consumer.group for consumer in self.live)
        readers = Counter(consumer.group for consumer in self.live if "u" in consumer.consumer.topics())
        leaving = [
            consumer
            for consumer in self.live
            if groups[consumer.group] > 1
            and readers[consumer.group] - ("u" in consumer.consumer.topics()) > 0  # somebody still has to read it
        ]
        if leaving:
            consumer = self.random.choice(leaving)
            self.log.append(f"leave {consumer.host}")
            await consumer.stop()

    async def change(self) -> None:
        """Give up a topic that others of the group read too, or take it up again."""
        consumer = self.random.choice(self.live)
        others = [other for other in self.live if other.group == consumer.group and other is not consumer]
        if "u" not in consumer.consumer.topics():
            self.log.append(f"{consumer.host} subscribes to u")
            await consumer.subscribe("u", work=self.work)
        elif any("u" in other.consumer.topics() for other in others):
            self.log.append(f"{consumer.host} gives u up")
            await consumer.unsubscribe("u")

    async def grow(self) -> None:
        topic, queues = self.random.choice(["t", "u"]), self.random.randrange(4, 8)
        entry = self.cluster.brokers["broker-a"].running.broker.topics.table.existing(topic)
        queues = max(queues, entry.config.read_queue_nums)
        self.log.append(f"{topic} has {queues} queues")
        await self.cluster.create_topic(topic, queues=queues)

    async def send(self) -> None:
        producer, number = await self.cluster.start_producer(), 0
        while True:
            await producer.send("t" if number % 3 else "u", b"%d" % number)
            number += 1
            await anyio.sleep(0.01)


async def scenario(cluster: SimulatedCluster) -> None:
    day = Day(cluster)
    cluster.client_options["route_poll_interval_s"] = 0.2
    await cluster.create_topic("t", queues=4)
    await cluster.create_topic("u", queues=3)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(day.send)
            await day.join()
            for _ in range(STEPS):
                await day.random.choices([day.join, day.leave, day.change, day.grow], [5, 4, 3, 1])[0]()
                if day.random.random() < 0.5:
                    await cluster.wait_converged(SETTLED_S)
                else:  # the next one comes into the middle of it
                    await anyio.sleep(day.random.random() * 0.1)
            await cluster.wait_converged(SETTLED_S)
            tasks.cancel_scope.cancel()
        await anyio.sleep(3)
        (producer,) = cluster.producers
        for group in {consumer.group for consumer in cluster.consumers}:
            members = [consumer for consumer in cluster.consumers if consumer.group == group]
            done = Counter(delivery.body for consumer in members for delivery in consumer.deliveries)
            assert producer.acknowledged.keys() - done.keys() == set()
            assert [body for body, times in done.items() if times > 1] == []
    except BaseException as error:
        error.add_note("\n".join(day.log))
        raise


@pytest.mark.parametrize("seed", SEEDS)
def test_members_may_come_and_go_all_day_and_no_message_is_lost_or_done_twice(simulate: Simulate, seed: int) -> None:
    simulate(scenario, seed=seed)
