"""How a pop consumer asks its brokers, and what becomes of messages that nobody waits for."""

from __future__ import annotations

from itertools import count
from typing import Any

import anyio

from client.pop.receiver import PopReceiver
from model.heartbeat import ConsumeFrom
from testbed.simulation.cluster.clients import SimulatedPopConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

FIRST: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET}


def receiver_of(popper: SimulatedPopConsumer) -> PopReceiver:
    assert popper.consumer._receiver is not None
    return popper.consumer._receiver


def pops_of(popper: SimulatedPopConsumer) -> list[int]:
    """Wraps its pops; the list grows by the time that each may be held, in ms."""
    asked: list[int] = []
    requests = receiver_of(popper).requests
    shipped, shipped_start = requests.pop, requests.start_pop

    async def pop(*args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs["suspend_ms"])
        return await shipped(*args, **kwargs)

    def start_pop(*args: Any, **kwargs: Any) -> bool:
        sent = shipped_start(*args, **kwargs)
        asked.extend([kwargs["suspend_ms"]] * sent)
        return sent

    requests.pop, requests.start_pop = pop, start_pop  # type: ignore[method-assign]
    return asked


def test_under_load_one_receive_is_one_short_request_and_nothing_is_popped_that_no_one_asked_for(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await (await cluster.start_producer()).send_many("t", 640)
        popper = await cluster.start_popper("g", "t", **FIRST)
        await anyio.sleep(1)  # the pass for its retry topic is over
        asked = pops_of(popper)
        brokers = []
        for _ in range(16):
            messages = await popper.receive()
            brokers.append(messages[0].queue.broker_name)
            assert await popper.ack(messages) == []
            assert len(messages) == 32
        assert asked == [0] * 16
        assert brokers.count("broker-a") == brokers.count("broker-b") == 8
        assert not receiver_of(popper)._kept

    simulate(scenario)


def test_when_there_is_nothing_every_broker_has_one_long_poll(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        popper = await cluster.start_popper("g", "t", **FIRST)
        asked = pops_of(popper)
        started_at = cluster.simulation.loop.time()
        assert await popper.receive(wait_s=10) == []
        assert 10 <= cluster.simulation.loop.time() - started_at < 10.1
        assert sorted(ms > 0 for ms in asked) == [False, False, True, True]

    simulate(scenario)


def test_of_many_that_wait_each_gets_what_comes_and_none_is_forgotten(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        popper = await cluster.start_popper("g", "t", **FIRST)
        producer = await cluster.start_producer()
        got: list[bytes] = []

        async def receive_one() -> None:
            (message,) = await popper.receive(1, wait_s=30)
            got.append(message.body)
            await popper.ack([message])

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(receive_one)
            await anyio.sleep(1)
            started_at = cluster.simulation.loop.time()
            await producer.send_many("t", 12)
        assert sorted(map(int, got)) == list(range(12))
        assert cluster.simulation.loop.time() - started_at < 1

    simulate(scenario)


def test_what_no_one_asks_for_is_given_back_after_a_while(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        popper = await cluster.start_popper("g", "t", **FIRST)
        with anyio.move_on_after(1):
            await popper.receive()
        await (await cluster.start_producer()).send_many("t", 1)
        other = await cluster.start_popper("g", "t", **FIRST)
        started_at = cluster.simulation.loop.time()
        (message,) = await other.receive()
        assert message.attempts == 1
        assert cluster.simulation.loop.time() - started_at < 0.1

    simulate(scenario, brokers=1)


def test_a_kept_message_is_made_longer_for_anyone_who_asks_next_unless_it_is_another_ones_by_then(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        popper = await cluster.start_popper("g", "t", **FIRST)
        producer = await cluster.start_producer()
        with anyio.move_on_after(1):
            await popper.receive(invisible_s=8)
        await producer.send_many("t", 1)
        await anyio.sleep(2)
        (message,) = await popper.receive(invisible_s=30, wait_s=0)
        await anyio.sleep(20)
        assert await popper.ack([message]) == []

        with anyio.move_on_after(1):
            await popper.receive(invisible_s=8)
        await producer.send_many("t", 1, first=1)
        await anyio.sleep(1)
        fault = popper.hang()
        await anyio.sleep(10)
        other = await cluster.start_popper("g", "t", **FIRST)
        (message,) = await other.receive()
        fault.heal()
        assert await popper.receive(invisible_s=8, wait_s=2) == []
        assert await other.ack([message]) == []

    simulate(scenario, brokers=1)


def limit_pops(popper: SimulatedPopConsumer, n: int) -> None:
    """Lets a receiver that asks again and again fail, for without this it would do so in no virtual time."""
    receiver = receiver_of(popper)
    shipped, begun = receiver._start, count(1)

    def start(*args: Any) -> None:
        assert next(begun) <= n, "it spins"
        shipped(*args)

    receiver._start = start  # type: ignore[assignment,method-assign]


def test_what_a_held_poll_brings_of_a_topic_that_was_abandoned_goes_back_and_the_topic_is_not_asked_for_again(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.create_topic("u", queues=1)
        popper = await cluster.start_popper("g", "t", **FIRST)
        with cluster.simulation.on_host(popper.host):
            await popper.consumer.subscribe("u")
        limit_pops(popper, 20)
        assert await popper.receive(wait_s=1) == []
        producer = await cluster.start_producer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(popper.receive)
            await anyio.sleep(1)
            with cluster.simulation.on_host(popper.host):
                await popper.consumer.unsubscribe("t")
            await anyio.sleep(1)
            assert {queue.topic for queue in receiver_of(popper)._targets} == {"u"}
            await producer.send("t", b"late")
            await anyio.sleep(0.1)
            assert {queue.topic for queue in receiver_of(popper)._targets} == {"u"}
        started_at = cluster.simulation.loop.time()
        assert await popper.receive(wait_s=5) == []
        assert cluster.simulation.loop.time() - started_at >= 5
        (message,) = await (await cluster.start_popper("g", "t", **FIRST)).receive()
        assert (message.body, message.attempts) == (b"late", 1)

    simulate(scenario, brokers=1)


def test_between_giving_a_topic_up_and_the_next_pass_only_the_others_are_asked(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.create_topic("u", queues=1)
        popper = await cluster.start_popper("g", "t", **FIRST)
        with cluster.simulation.on_host(popper.host):
            await popper.consumer.subscribe("u")
        limit_pops(popper, 20)
        assert await popper.receive(wait_s=0) == []
        del popper.consumer._subscriptions["t"]  # as `unsubscribe` does before it tells anybody
        started_at = cluster.simulation.loop.time()
        assert await popper.receive(wait_s=0.5) == []
        assert 0.5 <= cluster.simulation.loop.time() - started_at < 1

    simulate(scenario, brokers=1)
