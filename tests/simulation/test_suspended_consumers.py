"""A push consumer that is suspended calls no listener, stays a member, and loses nothing."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_consuming import committed

pytestmark = pytest.mark.simulation

KINDS: dict[str, dict[str, Any]] = {
    "pull": {},
    "in order": {"order": "queue"},
    "pop": {"mode": "pop", "invisible_s": 3.0},
    "pop in order": {"mode": "pop", "order": "queue", "invisible_s": 3.0},
    "assigned by a broker": {"assignment": "broker"},
}


def suspend(cluster: SimulatedCluster, consumer: SimulatedConsumer, suspended: bool = True) -> None:
    with cluster.simulation.on_host(consumer.host):
        (consumer.consumer.suspend if suspended else consumer.consumer.resume)()


@pytest.mark.parametrize("kind", KINDS)
def test_while_suspended_no_listener_is_called_and_afterwards_everything_comes_once(
    simulate: Simulate, kind: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer(
            "g", "t", max_workers=1, work=lambda message: anyio.sleep(1), **KINDS[kind]
        )
        producer = await cluster.start_producer()
        await anyio.sleep(2)
        await producer.send_many("t", 6)
        suspend(cluster, consumer)
        began = len(consumer.deliveries)
        assert 0 < began < 6, "some are with listeners, others were fetched"
        await producer.send_many("t", 6, first=6)
        await anyio.sleep(300)
        assert len(consumer.deliveries) == began
        assert all(delivery.finished for delivery in consumer.deliveries), "listeners that have messages finish"
        suspend(cluster, consumer, False)
        await anyio.sleep(20)
        assert sorted(consumer.bodies) == sorted(b"%d" % n for n in range(12))
        assert {delivery.times_delivered for delivery in consumer.deliveries} <= {0, 1}
        await consumer.stop()
        assert committed(cluster) == 12

    simulate(scenario, brokers=1)


def test_a_suspended_member_keeps_its_queues_and_gives_and_takes_them_as_ever(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        first = cluster.make_consumer("g")
        suspend(cluster, first)
        await cluster.subscribe_and_start(first, {"t": first.listener(None)})
        await cluster.wait_converged(1)
        second = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        assert (len(first.queues), len(second.queues)) == (2, 2)
        producer = await cluster.start_producer()
        for queue in cluster.target("g"):
            await producer.send("t", b"x", queue=queue)
        await anyio.sleep(300)
        assert (len(first.bodies), len(second.bodies)) == (0, 2)
        ownership = first.consumer._ownership
        assert ownership is not None
        assert not any(owned.process_queue.count for owned in ownership.owned.values()), "nothing was pulled"
        await second.stop()
        await cluster.wait_converged(1)
        assert len(first.queues) == 4
        await producer.send("t", b"new", queue=second_queue(cluster))
        await anyio.sleep(300)
        assert first.bodies == []
        suspend(cluster, first, False)
        await anyio.sleep(1)
        assert sorted(first.bodies) == [b"new", b"x", b"x"]

    simulate(scenario, brokers=1)


def second_queue(cluster: SimulatedCluster) -> MessageQueue:
    return sorted(cluster.target("g"))[-1]


def test_operators_see_who_is_suspended_and_the_trace_says_since_when(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        for suspended in (True, True, False):
            suspend(cluster, consumer, suspended)
            await anyio.sleep(0.1)
            with cluster.simulation.on_host("operator"):
                async with Admin(cluster.addresses) as admin:
                    (member,) = (await admin.group("g")).members
            assert member.suspended is consumer.consumer.suspended is suspended
        reported = [event for event in cluster.events if event.kind == EventKind.CONSUMER_SUSPENDED]
        assert [(event.client, event.detail) for event in reported] == [
            (consumer.client_id, "suspended"),
            (consumer.client_id, "resumed"),
        ]

    simulate(scenario, brokers=2)


def test_what_a_member_had_popped_is_not_worn_out_by_suspending_it_again_and_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 30)
        options: dict[str, Any] = {"mode": "pop", "max_workers": 1, "max_attempts": 2, "invisible_s": 3.0}
        consumer = await cluster.start_consumer(
            "g", "t", work=lambda message: anyio.sleep(1), consume_from=ConsumeFrom.FIRST_OFFSET, **options
        )
        for _ in range(10):
            await anyio.sleep(1)
            suspend(cluster, consumer)
            await anyio.sleep(10)
            suspend(cluster, consumer, False)
        await anyio.sleep(60)
        assert sorted(consumer.bodies) == sorted(b"%d" % n for n in range(30))
        assert cluster.brokers["broker-a"].running.broker.topics.table.get("%DLQ%g") is None

    simulate(scenario, brokers=1)
