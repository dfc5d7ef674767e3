"""Consumers that receive, acknowledge and extend single messages, against whole clusters."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.pop.consumer import PopConsumer
from model.errors import ReceiptHandleDead, RlabError
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


@asynccontextmanager
async def popper(
    cluster: SimulatedCluster, group: str = "g", topic: str = "t", **options: Any
) -> AsyncIterator[PopConsumer]:
    """A pop consumer on a host of its own; whatever the block asks of it comes from there."""
    host, made = cluster._options("pop", {"consume_from": ConsumeFrom.FIRST_OFFSET, **options})
    consumer = PopConsumer(cluster.addresses, group, **made)
    with cluster.simulation.on_host(host):
        async with consumer:
            await consumer.subscribe(topic)
            yield consumer


async def queues_of(cluster: SimulatedCluster) -> list[MessageQueue]:
    async with Admin(cluster.addresses) as admin:
        route = await admin.route("t")
    return [MessageQueue("t", data.broker_name, n) for data in route.queues for n in range(data.write_queue_nums)]


def test_messages_are_received_acknowledged_extended_and_given_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        loop = cluster.simulation.loop
        async with popper(cluster) as consumer:
            assert await consumer.receive(wait_s=0) == []
            await producer.send_many("t", 3)
            first, *more = await consumer.receive(invisible_s=1)
            assert len(more) == 2
            assert await consumer.ack(more) == []
            old = first.receipt_handle
            assert await consumer.extend(first, 5) == first.receipt_handle != old
            started_at = loop.time()
            (again,) = await consumer.receive(invisible_s=1)
            assert (again.body, again.attempts, again.times_delivered) == (first.body, 2, 1)
            assert loop.time() - started_at == pytest.approx(5, abs=0.1)
            for dead in (old, first):
                with pytest.raises(ReceiptHandleDead, match="or its invisible time ended"):
                    await consumer.ack(dead)
            assert await consumer.ack([first, again]) == [first]
            assert await consumer.receive(wait_s=3) == []

    simulate(scenario, brokers=1)


def test_a_message_that_is_given_back_can_be_had_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 1)
        async with popper(cluster) as consumer:
            (message,) = await consumer.receive(invisible_s=60)
            await consumer.extend(message.receipt_handle, 0)
            started_at = cluster.simulation.loop.time()
            (again,) = await consumer.receive()
            assert (again.body, again.attempts) == (b"0", 2)
            assert cluster.simulation.loop.time() - started_at < 0.1

    simulate(scenario, brokers=1)


def test_an_empty_broker_delays_nothing_and_what_another_gives_too_late_is_kept(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer:
            assert await consumer.receive(wait_s=1) == []  # from here on both are asked with long polls
            queues = {queue.broker_name: queue for queue in await queues_of(cluster)}
            got: list[MessageExt] = []
            for n, name in enumerate(("broker-a", "broker-b", "broker-b")):
                started_at = cluster.simulation.loop.time()
                async with anyio.create_task_group() as sending:
                    sending.start_soon(partial(producer.send, "t", b"%d" % n, queue=queues[name]))
                    messages = await consumer.receive()
                assert cluster.simulation.loop.time() - started_at < 0.05
                got += messages
                await consumer.ack(messages)
            assert [message.body for message in got] == [b"0", b"1", b"2"]
            # Both at the same time: one wins, and the other's message is not lost.
            await producer.send_many("t", 2, first=10)
            both = await consumer.receive() + await consumer.receive()
            assert sorted(message.body for message in both) == [b"10", b"11"]

    simulate(scenario)


def test_a_receive_that_is_abandoned_loses_nothing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer:
            with anyio.move_on_after(1):
                await consumer.receive(invisible_s=30)
            await producer.send_many("t", 2)
            await anyio.sleep(0.5)
            assert [message.body for message in await consumer.receive(invisible_s=30, wait_s=0)] == [b"0"]
            (other,) = await consumer.receive(invisible_s=30)
            assert other.attempts == 1
            with anyio.move_on_after(1):
                await consumer.receive(invisible_s=30)
            await producer.send_many("t", 1, first=2)
            async with popper(cluster) as second:  # nobody asks the first one any more: it gives back what it keeps
                (message,) = await second.receive()
                assert (message.body, message.attempts) == (b"2", 2)

    simulate(scenario, brokers=1)


def test_a_receive_says_why_when_no_broker_can_be_asked(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer:
            await cluster.brokers["broker-a"].crash()
            with pytest.raises(RlabError, match="broker-a"):
                await consumer.receive(wait_s=2)
            await cluster.brokers["broker-a"].start()
            await anyio.sleep(5)
            await producer.send_many("t", 1)
            assert [message.body for message in await consumer.receive()] == [b"0"]

    caplog.set_level(logging.CRITICAL)
    simulate(scenario, brokers=1)


def test_when_it_leaves_a_pop_consumer_gives_back_what_it_keeps_and_is_given_no_more(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer:
            with anyio.move_on_after(1):
                await consumer.receive(invisible_s=60)
            left_at = cluster.simulation.loop.time()
        assert cluster.simulation.loop.time() - left_at < 0.1
        await producer.send_many("t", 1)
        async with popper(cluster) as second:
            (message,) = await second.receive()
            assert message.attempts == 1

    simulate(scenario, brokers=1)


def test_in_order_a_pop_consumer_gets_no_message_of_a_queue_while_another_of_it_is_in_flight(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 4)
        async with popper(cluster, order=True) as consumer:
            first = await consumer.receive(2)
            assert await consumer.receive(2, wait_s=1) == []
            await consumer.ack(first)
            second = await consumer.receive(2)
            assert [message.body for message in first + second] == [b"0", b"1", b"2", b"3"]

    simulate(scenario, brokers=1)
