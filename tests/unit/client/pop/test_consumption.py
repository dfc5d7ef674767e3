"""The share of a push consumer in the mode pop, where it is not seen from outside (tests/simulation/test_pop.py)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from client.listeners.listener import ConsumeResult
from client.pop.consumption import PopConsumption
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

POP: dict[str, Any] = {"mode": "pop", "invisible_s": 3.0, "consume_from": ConsumeFrom.FIRST_OFFSET}


def share_of(consumer: SimulatedConsumer) -> PopConsumption:
    assert consumer.consumer._popped is not None
    return consumer.consumer._popped


def test_it_owns_no_queue_and_is_always_balanced(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", **POP)
        await anyio.sleep(0.1)
        assert consumer.queues == []
        assert sorted(queue.broker_name for queue in share_of(consumer)._loops) == ["broker-a", "broker-b"]
        assert await cluster.wait_converged(1.0) == 0.0

    simulate(scenario)


def test_a_topic_that_is_abandoned_is_popped_no_more_and_what_comes_late_is_given_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.create_topic("u", queues=1)
        first = await cluster.start_consumer("g", "t", **POP)
        await first.subscribe("u")
        await first.unsubscribe("t")
        await cluster.start_producer()
        await cluster.producers[0].send_many("t", 5)
        await cluster.producers[0].send_many("u", 5, first=10)
        second = await cluster.start_consumer("g", "t", **POP)
        await anyio.sleep(1)
        assert sorted(first.bodies) == [b"10", b"11", b"12", b"13", b"14"]
        assert sorted(second.bodies) == [b"0", b"1", b"2", b"3", b"4"]

    simulate(scenario, brokers=1)


def test_it_can_be_reported_to_pop_only_some_queues(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer("g", "t", rebalance_interval_s=3600.0, **POP)
        await anyio.sleep(5)
        with cluster.simulation.on_host(consumer.host):
            share_of(consumer).pop_from([MessageQueue("t", "broker-a", 1)])
        await anyio.sleep(2)
        producer = await cluster.start_producer()
        for n in range(10):
            await producer.send("t", b"%d" % n, queue=MessageQueue("t", "broker-a", n % 2))
        await anyio.sleep(1)
        assert {delivery.message.queue.queue_id for delivery in consumer.deliveries} == {1}

    simulate(scenario, brokers=1)


def test_a_message_is_made_longer_once_for_every_two_thirds_of_its_time_while_a_listener_has_it(
    simulate: Simulate,
) -> None:
    async def takes_eleven(message: MessageExt) -> None:
        await anyio.sleep(11)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=takes_eleven, **POP)
        share, extended = share_of(consumer), []
        shipped = share.requests.change_invisible

        async def change_invisible(*args: Any) -> tuple[int, int]:
            extended.append(round(cluster.simulation.loop.time() - sent_at))
            return await shipped(*args)

        share.requests.change_invisible = change_invisible  # type: ignore[assignment,method-assign]
        await anyio.sleep(5)
        producer = await cluster.start_producer()
        sent_at = cluster.simulation.loop.time()
        await producer.send_many("t", 1)
        await anyio.sleep(30)
        assert len(consumer.bodies) == 1
        assert len(extended) in (5, 6)
        assert share.late == 0
        assert share.unfinished == 0

    simulate(scenario, brokers=1)


def test_a_result_that_comes_while_its_message_is_made_longer_waits_for_the_new_handle(simulate: Simulate) -> None:
    async def until_renewed(message: MessageExt) -> ConsumeResult | None:
        await renewing.wait()
        return None

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=until_renewed, **POP)
        share = share_of(consumer)
        shipped = share.requests.change_invisible

        async def change_invisible(*args: Any) -> tuple[int, int]:
            answer = await shipped(*args)
            renewing.set()
            await anyio.sleep(0.5)  # the broker has a new handle, and we do not know it yet
            return answer

        share.requests.change_invisible = change_invisible  # type: ignore[assignment,method-assign]
        producer = await cluster.start_producer()
        await producer.send_many("t", 1)
        await anyio.sleep(20)
        assert len(consumer.bodies) == 1
        assert share.late == 0

    renewing = anyio.Event()
    simulate(scenario, brokers=1)


def test_what_a_listener_keeps_beyond_the_grace_is_given_back_at_the_shutdown(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(message: MessageExt) -> None:
        await anyio.sleep_forever()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options = {**POP, "invisible_s": 60.0}
        stuck = await cluster.start_consumer("g", "t", work=never, shutdown_grace_s=1.0, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 3)
        await anyio.sleep(1)
        await stuck.stop()
        other = await cluster.start_consumer("g", "t", **options)
        await anyio.sleep(1)
        assert len(other.bodies) == 3

    caplog.set_level(logging.CRITICAL)
    simulate(scenario, brokers=1)
