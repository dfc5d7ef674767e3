"""Consumers that receive, acknowledge and extend single messages, against whole clusters."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from client.admin.admin import Admin
from client.pop.consumer import PopConsumer
from client.pop.message import PopMessage
from model.errors import IllegalOperation, InvalidParameter, ReceiptHandleDead, RlabError
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


def test_a_message_stays_with_a_consumer_that_lives_and_comes_again_soon_after_its_death(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        loop = cluster.simulation.loop
        async with popper(cluster) as other:
            killed = await cluster.start_popper("g", "t")
            await producer.send_many("t", 2)
            first, second = await killed.receive(2, invisible_s=10, wait_s=5, renew=True)
            handle = first.receipt_handle
            assert await other.receive(wait_s=47) == []
            await killed.ack([handle])
            await killed.crash()
            started_at = loop.time()
            (again,) = await other.receive(wait_s=60)
            assert (again.body, again.attempts) == (second.body, 2)
            assert loop.time() - started_at < 10.1

    simulate(scenario, brokers=1)


def test_messages_of_an_answer_that_is_lost_are_received_by_another_when_their_time_is_over(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as unlucky, popper(cluster) as other:
            assert unlucky._receiver is not None
            monkeypatch.setattr(unlucky._receiver.requests, "_read_pop", lambda broker_name, answer: [])
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(unlucky.receive, invisible_s=5, wait_s=30, renew=True))
                await anyio.sleep(1)
                await producer.send_many("t", 1)
                await anyio.sleep(1)
                started_at = cluster.simulation.loop.time()
                (message,) = await other.receive()
                assert message.attempts == 2
                assert cluster.simulation.loop.time() - started_at < 4.1
                await other.ack(message)

    simulate(scenario, brokers=1)


def test_a_consumer_that_stood_still_receives_no_message_that_another_one_has_acknowledged(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        frozen = await cluster.start_popper("g", "t")
        received: list[MessageExt] = []

        async def receive() -> None:
            received.extend(await frozen.receive(invisible_s=3, wait_s=30, renew=True))

        async with popper(cluster) as other, anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.sleep(0.1)
            with cluster.simulation.network.freeze(frozen.host):
                await producer.send("t", b"acknowledged")
                (message,) = await other.receive(wait_s=10)
                await other.ack(message)
            await anyio.sleep(1)
            await producer.send("t", b"next")
            await anyio.sleep(1)
            assert [each.body for each in received] == [b"next"]
            assert await other.receive(wait_s=10) == []

    simulate(scenario, brokers=1)


def test_the_messages_of_a_consumer_that_is_shut_down_are_received_by_another_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as other:
            async with popper(cluster) as first:
                await producer.send_many("t", 2)
                assert len(await first.receive(wait_s=5, renew=True)) == 2
            started_at = cluster.simulation.loop.time()
            assert [message.attempts for message in await other.receive()] == [2, 2]
            assert cluster.simulation.loop.time() - started_at < 0.1

    simulate(scenario, brokers=1)


def test_what_another_kind_of_receive_left_is_received_with_handles_that_its_broker_extends(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer, popper(cluster) as other:
            with anyio.move_on_after(1):
                await consumer.receive(invisible_s=5)
            await producer.send_many("t", 1)
            await anyio.sleep(0.5)
            (message,) = await consumer.receive(invisible_s=5, renew=True)
            assert await other.receive(wait_s=30) == []
            await consumer.ack(message)

    simulate(scenario, brokers=1)


def test_a_consumer_moves_a_message_to_the_dead_letter_queue_by_its_handle(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer, popper(cluster, "operators", "%DLQ%g") as operator:
            await producer.send_many("t", 2)
            first, second = await consumer.receive(wait_s=5)
            await consumer.dead_letter(first)
            await consumer.dead_letter(second.receipt_handle)
            for dead in (first, second.receipt_handle):
                with pytest.raises(ReceiptHandleDead):
                    await consumer.dead_letter(dead)
            assert sorted(message.body for message in await operator.receive(wait_s=5)) == [b"0", b"1"]
            with pytest.raises(InvalidParameter, match="is not a receipt handle"):
                await consumer.dead_letter("nonsense")
        with pytest.raises(IllegalOperation, match="does not run"):
            await consumer.dead_letter(first)

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
            both = await consumer.receive(invisible_s=30, wait_s=0)
            assert [(message.body, message.attempts) for message in both] == [(b"0", 1), (b"1", 1)]
            with anyio.move_on_after(1):
                await consumer.receive(invisible_s=30)
            await producer.send_many("t", 1, first=2)
            async with popper(cluster) as second:
                started_at = cluster.simulation.loop.time()
                (message,) = await second.receive()
                assert (message.body, message.attempts) == (b"2", 1)
                assert cluster.simulation.loop.time() - started_at < 0.1


def test_what_a_cancelled_receive_gets_in_the_last_moment_is_received_by_another_within_a_tenth_of_a_second(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        loop, taken = cluster.simulation.loop, 0
        async with popper(cluster) as first, popper(cluster) as second:
            for n in range(20):  # cancelled before, while and after the answer is on its way
                async with anyio.create_task_group() as sending, anyio.create_task_group() as tasks:
                    tasks.start_soon(first.receive)
                    await anyio.sleep(0.5)
                    sending.start_soon(producer.send, "t", b"%d" % n)
                    await anyio.sleep(n * 0.0001)
                    tasks.cancel_scope.cancel()
                started_at = loop.time()
                messages = await second.receive(wait_s=1)
                taken += not messages
                assert not messages or (messages[0].attempts, loop.time() - started_at < 0.1) == (1, True)
                assert await second.ack(messages) == []
        assert 0 < taken < 20, "some were cancelled in time"

    simulate(scenario, brokers=1)


def test_a_cancelled_receive_leaves_the_pops_for_those_that_wait(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        async with popper(cluster) as consumer:
            async with anyio.create_task_group() as tasks:
                got: list[PopMessage] = []

                async def receive() -> None:
                    got.extend(await consumer.receive())

                tasks.start_soon(receive)
                await anyio.sleep(1)
                with anyio.move_on_after(1):
                    await consumer.receive()
                await producer.send_many("t", 1)
            assert [message.attempts for message in got] == [1]

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
