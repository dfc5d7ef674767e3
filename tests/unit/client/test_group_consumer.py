"""What push and lite pull consumers have in common."""

from __future__ import annotations

import anyio
import pytest

from client.allocate import AllocateMessageQueueBalancedSticky
from model.errors import ConnectFailed
from model.heartbeat import ConsumeType
from model.message_queue import MessageQueue
from simulation.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

Queues = tuple[MessageQueue, ...]


def test_a_message_queue_listener_sees_every_change_and_may_fail(simulate: Simulate) -> None:
    calls: list[tuple[str, int, int]] = []

    async def listener(topic: str, everything: Queues, mine: Queues) -> None:
        calls.append((topic, len(everything), len(mine)))
        raise ValueError("whatever")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=1)
        first = await cluster.start_consumer("g", "t", message_queue_listener=listener)
        await anyio.sleep(3)
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(3)
        await second.crash()
        await anyio.sleep(3)
        await cluster.create_topic("t", queues=3)
        await anyio.sleep(40)
        await first.subscribe("u")
        await anyio.sleep(3)
        await first.unsubscribe("t")
        await anyio.sleep(3)

    simulate(scenario)
    assert calls == [("t", 4, 4), ("t", 4, 2), ("t", 4, 4), ("t", 6, 6), ("u", 2, 2), ("t", 0, 0)]


@pytest.mark.parametrize("sticky", [False, True])
def test_a_member_that_gave_up_its_last_topic_stays_one_without_queues_until_it_leaves(
    simulate: Simulate, sticky: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        strategy = AllocateMessageQueueBalancedSticky() if sticky else None
        first = await cluster.start_consumer("g", "t", strategy=strategy)
        second = await cluster.start_consumer("g", "t", strategy=strategy)
        await cluster.wait_converged(5)
        await first.unsubscribe("t")
        await anyio.sleep(3)
        assert (len(first.queues), len(second.queues)) == (0, 4)
        info = cluster.brokers["broker-a"].running.broker.groups.get("g")
        assert info is not None
        assert [each.data.consume_type for each in info.members.values()] == [ConsumeType.PASSIVELY] * 2
        await first.stop()
        assert len(info.members) == 1

    simulate(scenario)


def test_a_subscription_that_no_name_server_heard_of_takes_effect_when_one_is_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = cluster.make_consumer("g")
        await consumer.start()
        await cluster.name_servers["namesrv-1"].crash()
        with pytest.raises(ConnectFailed):
            await consumer.subscribe("t")
        await cluster.name_servers["namesrv-1"].start()
        await anyio.sleep(70)
        assert len(consumer.queues) == 2

    simulate(scenario, brokers=1)
