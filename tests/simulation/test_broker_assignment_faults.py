"""Groups whose queues a broker shares out, through whatever a seed decides: steps of every day, and faults.

Members subscribe to different topics, or operators switch a topic between pull and pop at any moment. Not both: what is
still out when a topic is no longer popped comes again as a retry, and retries go to any member of the group.

Without a fault no message is lost and none is done twice; with faults none is lost, and in the end all is even again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import anyio
import pytest

from client.admin.admin import Admin
from client.push.consumer import PushConsumer
from client.rebalance.broker_assigned_queues import BrokerAssignedQueues
from model.assignment import RequestMode
from model.errors import RlabError
from model.events import EventKind
from model.message import MessageExt
from testbed.simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

STEPS = 12
QUIET_S = 45.0
"""A session, a route poll, and the time that messages are invisible."""


class Group:
    """Group `g` with topics `t`, which may be popped, and `u`.

    Attributes:
        mixed: members subscribe to different topics.
    """

    def __init__(self, cluster: SimulatedCluster, producer: SimulatedProducer, *, mixed: bool) -> None:
        self.cluster = cluster
        self.mixed = mixed
        self.random = Random(f"group {cluster.simulation.seed}")
        self.sent = 0
        self._producer = producer

    @property
    def live(self) -> list[SimulatedConsumer]:
        return [consumer for consumer in self.cluster.consumers if consumer.live]

    async def work(self, message: MessageExt) -> None:
        await anyio.sleep(self.random.random() * 0.05)

    async def join(self) -> None:
        if len(self.live) < 6:
            topics = ["t", "u"]
            if self.mixed and self.live:
                topics = self.random.choice([["t"], ["u"], topics])
            consumer = self.cluster.make_consumer(
                "g",
                assignment="broker",
                rebalance_interval_s=5,
                session_timeout_s=20,
                retry_delay_ms=200,
                invisible_s=5,
            )
            for topic in topics:
                await consumer.subscribe(topic, work=self.work)
            await consumer.start()

    def _may_go(self) -> list[SimulatedConsumer]:
        # Somebody has to read each topic, and the first one reads both.
        return [consumer for consumer in self.live if consumer is not self.cluster.consumers[0]]

    async def leave(self) -> None:
        if self._may_go():
            await self.random.choice(self._may_go()).stop()

    async def mode(self, mode: str | None = None) -> None:
        mode = mode or self.random.choice(list(RequestMode))
        with self.cluster.simulation.on_host("admin"):
            async with Admin(self.cluster.addresses) as admin:
                await until_it_works(lambda: admin.set_request_mode("g", "t", mode))

    async def kill_member(self) -> None:
        if self._may_go():
            await self.random.choice(self._may_go()).crash()

    async def kill_broker(self) -> None:
        broker = self.cluster.brokers[self.random.choice(list(self.cluster.brokers))]
        await broker.crash()
        await anyio.sleep(self.random.choice([0.05, 1, 5]))
        await broker.start()

    async def partition(self) -> None:
        member, broker = self.random.choice(self.live), self.random.choice(list(self.cluster.brokers))
        with self.cluster.simulation.network.partition(member.host, broker):
            await anyio.sleep(self.random.choice([0.2, 3, 30]))

    async def cut(self) -> None:
        self.cluster.simulation.network.cut(self.random.choice(self.live).host)

    async def send(self) -> None:
        for topic in ("t", "u"):
            for _ in range(15):
                number, self.sent = self.sent, self.sent + 1
                await until_it_works(partial(self._producer.send, topic, b"%d" % number))

    def check_even(self) -> None:
        shares = {consumer.client_id: share_of(consumer) for consumer in self.live}
        assert len({share.requests.assignment.version for share in shares.values()}) == 1
        owned = Counter(queue for consumer in self.live for queue in consumer.consumer.queues)
        assert set(owned.values()) == {1}
        assert len(owned) == 2 * (3 + 3 + 1)
        for topics in {consumer.consumer.subscribed_topics() for consumer in self.live}:
            kind = [consumer for consumer in self.live if consumer.consumer.subscribed_topics() == topics]
            loads = [len(consumer.consumer.queues) for consumer in kind]
            assert max(loads) - min(loads) <= 1
        versions = [event.version for event in self.cluster.events_of(EventKind.ASSIGNMENT_MADE)]
        assert versions == sorted(set(versions))


def share_of(consumer: SimulatedConsumer) -> BrokerAssignedQueues:
    assert isinstance(consumer.consumer, PushConsumer)
    share = consumer.consumer._ownership
    assert isinstance(share, BrokerAssignedQueues)
    return share


async def until_it_works(attempt: Callable[[], Awaitable[object]]) -> None:
    for _ in range(300):
        try:
            await attempt()
        except RlabError:
            await anyio.sleep(0.1)
        else:
            return


async def started(cluster: SimulatedCluster, *, mixed: bool) -> Group:
    for topic in ("t", "u"):
        await cluster.create_topic(topic, queues=3)
    group = Group(cluster, await cluster.start_producer(), mixed=mixed)
    for _ in range(3):
        await group.join()
    await anyio.sleep(2)
    return group


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_without_a_fault_each_message_is_consumed_once_whatever_members_and_operators_do(
    simulate: Simulate, seed: int, mixed: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        group = await started(cluster, mixed=mixed)
        for _ in range(STEPS):
            await group.random.choice([group.join, group.leave, group.leave if mixed else group.mode])()
            await group.send()
            await anyio.sleep(group.random.choice([0.01, 0.3, 2]))
        await group.mode("PULL")
        await anyio.sleep(QUIET_S)
        group.check_even()
        assert sorted(int(body) for each in cluster.consumers for body in each.bodies) == list(range(group.sent))

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_with_faults_no_message_is_lost_and_all_is_even_again_in_the_end(
    simulate: Simulate, seed: int, mixed: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        group = await started(cluster, mixed=mixed)
        faults = [group.kill_member, group.kill_broker, group.partition, group.cut]
        for _ in range(STEPS):
            await group.random.choice([group.join, group.leave if mixed else group.mode, *faults])()
            await group.send()
            await anyio.sleep(group.random.choice([0.01, 0.3, 2]))
        await group.mode("PULL")
        await anyio.sleep(QUIET_S)
        group.check_even()
        assert {int(body) for each in cluster.consumers for body in each.bodies} == set(range(group.sent))

    simulate(scenario, seed=seed)
