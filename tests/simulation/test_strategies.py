"""Groups that live with each strategy: members come and go, and everything is consumed as the strategy says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
import pytest

from client.allocate import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueBalancedSticky,
    AllocateMessageQueueByClientIp,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from client.allocate.averagely import AllocateMessageQueueAveragely
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

QUEUES = [MessageQueue("t", broker, number) for broker in ("broker-a", "broker-b") for number in range(4)]


class ByLetter:
    """A room for each broker; members are in the room that the last letter of their host names."""

    def broker_room(self, queue: MessageQueue) -> str:
        return queue.broker_name[-1]

    def consumer_room(self, client_id: str) -> str:
        return client_id.partition("@")[0][-1]


@pytest.mark.parametrize(
    "make",
    [
        AllocateMessageQueueConsistentHash,
        AllocateMessageQueueBalancedSticky,
        lambda: AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), ByLetter()),
        lambda: AllocateMessageQueueByClientIp(["one-a"], AllocateMessageQueueBalancedSticky()),
    ],
    ids=["CONSISTENT_HASH", "BALANCED_STICKY", "NEARBY", "CLIENT_IP"],
)
def test_a_group_converges_after_every_join_and_leave_and_consumes_everything(
    simulate: Simulate, make: Callable[[], AllocateMessageQueueStrategy]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        strategy = make()
        producer = await cluster.start_producer()
        for host in ("one-a", "two-a", "three-b"):
            await cluster.start_consumer("g", "t", strategy=strategy, host=host, instance_name=host)
            await cluster.wait_converged(5)
        await producer.send_many("t", 40)
        await anyio.sleep(1)
        assert sorted({int(body) for each in cluster.consumers for body in each.bodies}) == list(range(40))
        await cluster.consumers[1].stop()
        await cluster.wait_converged(5)
        assert sorted(cluster.owners("g")) == QUEUES

    simulate(scenario, brokers=2)


class FailsForBad(AllocateMessageQueueAveragely):
    """Fails for the topic `bad`, from some time on."""

    broken = False

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        if self.broken and mq_all[0].topic == "bad":
            raise KeyError("no room for bad")
        return super().allocate(consumer_group, current_cid, mq_all, cid_all)


def test_a_strategy_that_fails_for_one_topic_leaves_that_as_it_is_and_the_others_go_on(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in ("bad", "u", "w"):
            await cluster.create_topic(topic, queues=2)
        strategy = FailsForBad()
        first = await cluster.start_consumer("g", "bad", strategy=strategy)
        await first.subscribe("u")
        second = await cluster.start_consumer("g", "u", strategy=AllocateMessageQueueAveragely())
        await anyio.sleep(3)

        def queues_of(consumer: SimulatedConsumer, topic: str) -> int:
            return sum(queue.topic == topic for queue in consumer.queues)

        assert (queues_of(first, "bad"), queues_of(first, "u"), queues_of(second, "u")) == (4, 2, 2)
        strategy.broken = True
        await first.unsubscribe("u")
        await first.subscribe("w")
        await anyio.sleep(3)
        assert (queues_of(first, "bad"), queues_of(first, "u"), queues_of(second, "u")) == (4, 0, 4)
        assert queues_of(first, "w") == 4

    simulate(scenario, brokers=2)


def test_members_have_the_queues_they_are_configured_with_and_new_ones_when_they_exist(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        later = MessageQueue("t", "broker-a", 1)
        first = await cluster.start_consumer("g", "t", strategy=AllocateMessageQueueByConfig([QUEUES[0], later]))
        second = await cluster.start_consumer("g", "t", strategy=AllocateMessageQueueByConfig([QUEUES[4]]))
        await anyio.sleep(2)
        assert (first.queues, second.queues) == ([QUEUES[0]], [QUEUES[4]])
        await cluster.create_topic("t", queues=2)
        await anyio.sleep(40)
        assert (first.queues, second.queues) == ([QUEUES[0], later], [QUEUES[4]])

    simulate(scenario, brokers=2)
