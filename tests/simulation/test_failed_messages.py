"""A message that its listener fails on comes again, holds nobody up, and is never just gone."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.listeners.listener import ConsumeResult
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_consuming import committed

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("how", ["raises", "says so"])
def test_a_failed_message_is_redelivered_after_the_wait_until_it_succeeds(simulate: Simulate, how: str) -> None:
    async def fails_twice(message: MessageExt) -> ConsumeResult | None:
        if message.times_delivered < 2:
            if how == "raises":
                raise ValueError("not yet")
            return ConsumeResult.RECONSUME_LATER
        return None

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=fails_twice, retry_delay_ms=3000)
        producer = await cluster.start_producer()
        await producer.send("t", b"1")
        await anyio.sleep(20)
        assert [delivery.times_delivered for delivery in consumer.deliveries] == [0, 1, 2]
        first, second, third = (delivery.time_s for delivery in consumer.deliveries)
        assert (second - first, third - second) == pytest.approx((3, 3), abs=0.01)
        assert committed(cluster) == 1

    simulate(scenario, brokers=1)


def test_a_failed_message_holds_no_one_up_and_ends_as_a_dead_letter(simulate: Simulate) -> None:
    async def fails_on_three(message: MessageExt) -> None:
        if message.body == b"3":
            raise ValueError("never")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"retry_delay_ms": 2000, "max_attempts": 2}
        consumer = await cluster.start_consumer("g", "t", work=fails_on_three, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(20)
        attempts = [delivery.times_delivered for delivery in consumer.deliveries if delivery.body == b"3"]
        assert attempts == [0, 1, 2]
        assert committed(cluster) == 10
        broker = cluster.brokers["broker-a"].running.broker
        dead = broker.topics.table.existing("%DLQ%g").topic_id
        assert broker.store.max_offset(dead, 0) == 1
        assert len(broker.delays) == 0

    simulate(scenario, brokers=1)


def test_a_member_none_of_whose_topics_exists_reads_the_retry_topic_of_its_group(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("other")
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(31, retry_topics=True)  # its next poll of routes finds it
        owned = [str(queue) for queue in consumer.consumer.queues]
        assert owned == ["%RETRY%g@broker-a:0", "%RETRY%g@broker-b:0"]

    simulate(scenario)


def test_a_retry_that_comes_to_a_member_without_its_topic_is_not_lost(simulate: Simulate) -> None:
    async def fails(message: MessageExt) -> None:
        raise ValueError("no")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.create_topic("u", queues=1)
        options: dict[str, Any] = {"retry_delay_ms": 100, "max_attempts": 3}
        await cluster.start_consumer("g", "t", work=fails, **options)
        await cluster.start_consumer("g", "u", **options)
        producer = await cluster.start_producer()
        await anyio.sleep(5)
        await producer.send_many("t", 10)
        await anyio.sleep(10)
        brokers = [server.running.broker for server in cluster.brokers.values()]
        dead = [broker.store.max_offset(broker.topics.table.existing("%DLQ%g").topic_id, 0) for broker in brokers]
        assert sum(dead) == 10

    simulate(scenario)


def test_a_failed_message_whose_wait_is_over_waits_for_a_worker_without_spinning(simulate: Simulate) -> None:
    async def first_fails_second_is_slow(message: MessageExt) -> None:
        if message.body == b"0" and message.times_delivered == 0:
            raise ValueError("not yet")
        if message.body == b"1":
            await anyio.sleep(10)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"max_workers": 1, "retry_delay_ms": 2000}
        consumer = await cluster.start_consumer("g", "t", work=first_fails_second_is_slow, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 2)
        await anyio.sleep(11)  # a loop that never sleeps would not let virtual time get here
        assert consumer.bodies == [b"0", b"1", b"0"]

    simulate(scenario, brokers=1)


def test_dead_letters_that_are_sent_again_after_a_repair_are_all_consumed(simulate: Simulate) -> None:
    repaired = False

    async def fails_until_repaired(message: MessageExt) -> None:
        if not repaired and int(message.body) % 10 == 0:
            raise ValueError("no")

    async def scenario(cluster: SimulatedCluster) -> None:
        nonlocal repaired
        await cluster.create_topic("t", queues=4)
        options: dict[str, Any] = {"retry_delay_ms": 100, "max_attempts": 2}
        consumers = [await cluster.start_consumer("g", "t", work=fails_until_repaired, **options) for _ in range(3)]
        await cluster.wait_converged(2)
        await (await cluster.start_producer()).send_many("t", 500)
        await anyio.sleep(5)
        repaired = True
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                resending = admin.dead_letters("g").resend_all()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consumers[0].crash)
                    assert await resending == 50
        await anyio.sleep(30)
        finished = [int(delivery.body) for c in consumers for delivery in c.deliveries if delivery.finished]
        assert set(finished) == set(range(500))

    simulate(scenario)
