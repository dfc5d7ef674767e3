"""Groups whose queues a broker shares out: few moves, nothing lost or consumed twice, whoever crashes."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from broker.assignment.sharing import assign
from client.admin.admin import Admin
from client.push.consumer import PushConsumer
from client.rebalance.broker_assigned_queues import BrokerAssignedQueues
from model.assignment import RequestMode
from model.events import EventKind
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


async def start(cluster: SimulatedCluster, topic: str = "t", **options: Any) -> SimulatedConsumer:
    return await cluster.start_consumer("g", topic, assignment="broker", **options)


def share_of(consumer: SimulatedConsumer) -> BrokerAssignedQueues:
    share = consumer.consumer._ownership
    assert isinstance(share, BrokerAssignedQueues)
    return share


def live(cluster: SimulatedCluster) -> list[SimulatedConsumer]:
    return [consumer for consumer in cluster.consumers if consumer.live]


def owners(cluster: SimulatedCluster) -> dict[MessageQueue, str]:
    return {queue: consumer.client_id for consumer in live(cluster) for queue in consumer.consumer.queues}


def loads(cluster: SimulatedCluster) -> list[int]:
    return sorted(len(consumer.consumer.queues) for consumer in live(cluster))


async def settle(cluster: SimulatedCluster, queues: int, timeout_s: float = 5) -> dict[MessageQueue, str]:
    """Wait until all members act on one version, and have all queues between them; those of retry topics count."""
    with anyio.fail_after(timeout_s):
        while True:
            members = live(cluster)
            versions = {share_of(member).requests.assignment.version for member in members}
            has = {member.client_id: member.consumer.queues for member in members}
            wants = {member.client_id: list(share_of(member).requests.assignment.queues) for member in members}
            if len(versions) == 1 and has == wants and sum(map(len, has.values())) == queues:
                return owners(cluster)
            await anyio.sleep(0.005)


def moved(before: dict[MessageQueue, str], after: dict[MessageQueue, str]) -> int:
    return sum(before.get(queue, owner) != owner for queue, owner in after.items())


async def follow(cluster: SimulatedCluster, before: dict[MessageQueue, str], queues: int) -> dict[MessageQueue, str]:
    """Settle, and check that loads are even and that no even sharing would have moved less."""
    after = await settle(cluster, queues)
    topics_of = {member.client_id: member.consumer.subscribed_topics() for member in live(cluster)}
    queues_of: dict[str, list[MessageQueue]] = {}
    for queue in after:
        queues_of.setdefault(queue.topic, []).append(queue)
    assert loads(cluster)[-1] - loads(cluster)[0] <= 1
    assert moved(before, after) == moved(before, assign(before, queues_of, topics_of))
    return after


def received(cluster: SimulatedCluster) -> list[int]:
    return sorted(int(body) for consumer in cluster.consumers for body in consumer.bodies)


@pytest.mark.parametrize("seed", range(3))
def test_members_come_and_go_with_the_fewest_moves_and_nothing_is_lost_or_comes_twice(
    simulate: Simulate, seed: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        rng = Random(seed)
        await cluster.create_topic("t", queues=8)
        producer = await cluster.start_producer()
        await start(cluster, rebalance_interval_s=5)
        await anyio.sleep(6)
        owned = await settle(cluster, 18)
        for step in range(12):
            if len(live(cluster)) < 2 or rng.random() < 0.6:
                await start(cluster)
            else:
                await rng.choice(live(cluster)).stop()
            await producer.send_many("t", 40, first=40 * step)
            owned = await follow(cluster, owned, 18)
        await anyio.sleep(2)
        assert received(cluster) == list(range(480))
        versions = [event.version for event in cluster.events_of(EventKind.ASSIGNMENT_MADE)]
        assert versions == sorted(set(versions))

    simulate(scenario, seed=seed)


def test_a_killed_member_is_replaced_with_the_fewest_moves(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=6)
        for _ in range(3):
            await start(cluster)
        await anyio.sleep(2)
        owned = await settle(cluster, 14)
        await cluster.consumers[1].crash()
        await follow(cluster, owned, 14)

    simulate(scenario)


def coordinators(cluster: SimulatedCluster) -> set[str]:
    return {share_of(member).requests.coordinator.partition(":")[0] for member in live(cluster)}


def test_another_broker_goes_on_from_the_same_shares_when_the_coordinator_crashes_and_it_when_it_is_back(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=6)
        for _ in range(3):
            await start(cluster, rebalance_interval_s=5)
        await anyio.sleep(2)
        owned = await settle(cluster, 14)
        assert coordinators(cluster) == {"broker-a"}
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(6)
        assert coordinators(cluster) == {"broker-b"}
        assert await settle(cluster, 14) == owned
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(8)
        assert coordinators(cluster) == {"broker-a"}
        assert await settle(cluster, 14) == owned
        await start(cluster)
        await follow(cluster, owned, 14)
        versions = [event.version for event in cluster.events_of(EventKind.ASSIGNMENT_MADE)]
        assert versions == sorted(set(versions))

    simulate(scenario)


def test_messages_flow_through_crashes_of_the_coordinator_and_none_is_lost(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()
        for _ in range(3):
            await start(cluster)
        await anyio.sleep(2)
        sent = 0
        for name in ("broker-a", "broker-b", "broker-a"):
            await producer.send_many("t", 50, first=sent)
            sent += 50
            await cluster.brokers[name].crash()
            await start(cluster)
            await anyio.sleep(3)
            await cluster.brokers[name].start()
            await anyio.sleep(3)
        await anyio.sleep(10)
        await settle(cluster, 10)
        assert set(received(cluster)) == set(range(sent))

    simulate(scenario)


def test_a_member_that_sees_new_queues_first_makes_the_others_look(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await start(cluster, route_poll_interval_s=3)
        await start(cluster, route_poll_interval_s=3600)
        await anyio.sleep(2)
        await settle(cluster, 6)
        await cluster.create_topic("t", queues=6)
        await anyio.sleep(4)
        await settle(cluster, 14)
        assert loads(cluster) == [7, 7]
        await cluster.create_topic("t", queues=3, write=3)
        await anyio.sleep(4)
        await settle(cluster, 8)
        assert loads(cluster) == [4, 4]

    simulate(scenario)


def test_members_whose_name_servers_know_different_brokers_share_what_they_can_and_all_once_they_agree(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()
        first, second = cluster.addresses
        cut = cluster.simulation.network.partition("namesrv-2", "broker-a")
        await anyio.sleep(150)  # until it has forgotten the broker
        options: dict[str, Any] = {"trace": False, "clock_ms": cluster.simulation.clock_ms, "rng": Random(1)}
        for host, address in (("one", first), ("two", second)):
            consumer = PushConsumer([address], "g", assignment="broker", instance_name=host, **options)
            cluster.consumers.append(SimulatedConsumer(cluster.simulation, host, consumer))
            await cluster.consumers[-1].subscribe("t")
            await cluster.consumers[-1].start()
        await anyio.sleep(60)
        await producer.send_many("t", 80)
        await anyio.sleep(5)
        assert received(cluster) == list(range(80))
        cut.heal()
        await anyio.sleep(90)
        await settle(cluster, 10)
        assert loads(cluster) == [5, 5]
        await producer.send_many("t", 80, first=80)
        await anyio.sleep(5)
        assert received(cluster) == list(range(160))

    simulate(scenario, name_servers=2)


def test_a_broker_that_is_added_before_the_first_becomes_the_coordinator_without_more_moves_than_it_takes(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4, brokers=["broker-a", "broker-b"])
        for poll_s in (3, 8, 13):
            await start(cluster, route_poll_interval_s=poll_s, rebalance_interval_s=4)
        await anyio.sleep(14)
        owned = await settle(cluster, 10)
        await cluster.add_broker("broker-0")
        await cluster.create_topic("t", queues=4)
        await anyio.sleep(60)
        after = await settle(cluster, 15)
        assert coordinators(cluster) == {"broker-0"}
        assert (loads(cluster), moved(owned, after)) == ([5, 5, 5], 0)

    simulate(scenario)


def test_members_with_a_strategy_of_their_own_are_reported_and_nothing_is_left_lying(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()
        await start(cluster)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(2)
        await producer.send_many("t", 40)
        await anyio.sleep(5)
        assert received(cluster) == list(range(40))
        with cluster.simulation.on_host("admin"):
            async with Admin(cluster.addresses) as admin:
                [disagreement] = (await admin.group("g")).disagreements
        assert [side.value for side in disagreement.sides] == ["AVG", "BROKER"]

    simulate(scenario)


def test_an_operator_sees_who_shares_out_and_that_all_is_where_it_should_be(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        for _ in range(2):
            await start(cluster)
        await anyio.sleep(2)
        await settle(cluster, 10)
        with cluster.simulation.on_host("admin"):
            async with Admin(cluster.addresses) as admin:
                group = await admin.group("g")
                assert (group.assignment.coordinator, group.balanced) == ("broker-a", True)
                assert group.assignment.version == share_of(cluster.consumers[0]).requests.assignment.version
                await admin.set_request_mode("g", "t", RequestMode.POP)
                await anyio.sleep(2)
                group = await admin.group("g")
                assert group.balanced
                assert group.assignment.popped == {"t"}

    simulate(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_a_group_goes_from_pull_to_pop_and_back_under_load_without_loss_or_double_consumption(
    simulate: Simulate, seed: int
) -> None:
    async def slow(message: MessageExt) -> None:
        await anyio.sleep(0.05)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()
        for _ in range(3):
            await start(cluster, work=slow)
        await anyio.sleep(2)
        await settle(cluster, 10)
        popped = 0
        async with anyio.create_task_group() as tasks:

            async def produce() -> None:
                for n in range(200):
                    await producer.send_many("t", 10, first=10 * n)
                    await anyio.sleep(0.1)

            tasks.start_soon(produce)
            with cluster.simulation.on_host("admin"):
                async with Admin(cluster.addresses) as admin:
                    for mode in ("POP", "PULL", "POP", "PULL"):
                        await anyio.sleep(3 + Random(seed).random())
                        await admin.set_request_mode("g", "t", mode)
                        await anyio.sleep(2)
                        popped += not any(member.queues for member in live(cluster))
        await anyio.sleep(5)
        assert popped == 2
        await settle(cluster, 10)
        assert received(cluster) == list(range(2000))

    simulate(scenario, seed=seed)
