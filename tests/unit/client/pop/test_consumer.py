"""What users call of a pop consumer, and what it refuses; its life with brokers is in tests/simulation/test_pop.py."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from client.pop.consumer import PopConsumer
from client.pop.message import encode_handle
from model.errors import ConfigError, IllegalOperation, InvalidParameter, RlabError
from model.heartbeat import ConsumeType
from model.message import Message
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def made(**options: Any) -> PopConsumer:
    return PopConsumer("127.0.0.1:9876", "g", **options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_attempt": 1}, "'max_attempt': did you mean 'max_attempts'"),
        ({"max_workers": 1}, "'max_workers' is an option of PushConsumer and not of PopConsumer: it has consume_from"),
        ({"mode": "pop"}, "'mode' is an option of PushConsumer"),
        ({"max_attempts": -1}, "max_attempts must be 0 to 65000, got -1"),
    ],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(**options)


async def refused(consumer: PopConsumer, **numbers: Any) -> str:
    with pytest.raises(InvalidParameter) as caught:
        await consumer.receive(**numbers)
    return str(caught.value)


def test_numbers_out_of_range_and_calls_out_of_place_are_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        popper = await cluster.start_popper("g", "t")
        consumer = popper.consumer
        assert await refused(consumer, max_n=33) == "max_n must be 1 to 32, got 33"
        assert await refused(consumer, invisible_s=0.05) == "invisible_s must be 0.1 to 43200, got 0.05"
        assert await refused(consumer, wait_s=-1) == "wait_s must be 0 to 60, got -1"
        with pytest.raises(InvalidParameter, match="not a receipt handle"):
            await popper.ack(["nonsense"])
        await popper.stop()
        with pytest.raises(IllegalOperation, match="does not run"):
            await popper.receive()

    simulate(scenario)


def test_before_its_start_it_has_nothing_and_says_that_it_does_not_run(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = made()
        assert (consumer.queues, consumer.client_id) == ([], "")
        with pytest.raises(IllegalOperation, match="start it, or use it as `async with"):
            await consumer.receive()

    simulate(scenario)


def test_who_subscribes_to_nothing_is_reported_so(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with cluster.simulation.on_host("here"):
            async with PopConsumer(cluster.addresses, "g", trace=False) as consumer:
                with pytest.raises(IllegalOperation, match="subscribes to nothing"):
                    await consumer.receive()

    simulate(scenario)


def test_brokers_know_it_as_a_member_that_pops(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        popper = await cluster.start_popper("g", "t")
        for server in cluster.brokers.values():
            group = server.running.broker.groups.table.get("g")
            assert group is not None
            assert list(group.members) == [popper.client_id]
        data = popper.consumer.consumer_data()
        assert data is not None
        assert data.consume_type is ConsumeType.POP

    simulate(scenario)


def test_a_shutdown_ends_a_receive_that_waits(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        popper = await cluster.start_popper("g", "t")

        async def waits() -> None:
            with pytest.raises(IllegalOperation, match="was shut down"):
                await popper.receive(wait_s=60)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits)
            await anyio.sleep(1)
            await popper.stop()
        assert cluster.simulation.loop.time() < 5

    simulate(scenario)


def test_receives_that_fail_together_raise_an_error_each(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        popper = await cluster.start_popper("g", "t")
        await popper.receive(wait_s=0)
        for server in cluster.brokers.values():
            await server.crash()
        first, second = await asyncio.gather(
            *(popper.consumer.receive(wait_s=5) for _ in range(2)), return_exceptions=True
        )
        assert isinstance(first, RlabError)
        assert type(first) is type(second)
        assert first is not second

    simulate(scenario)


@pytest.mark.parametrize("broker", ["broker-a", "nowhere"], ids=["dead", "not sent"])
def test_callers_that_share_a_request_get_an_error_each(simulate: Simulate, broker: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        popper = await cluster.start_popper("g", "t")
        handle = encode_handle(MessageQueue("t", broker, 0), 0, 1)
        first, second = await asyncio.gather(*(popper.consumer.ack(handle) for _ in range(2)), return_exceptions=True)
        assert isinstance(first, RlabError)
        assert (type(first), str(first)) == (type(second), str(second))
        assert first is not second

    simulate(scenario)


def test_what_is_neither_a_message_nor_a_handle_is_refused_by_name(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        popper = await cluster.start_popper("g", "t")
        consumer: Any = popper.consumer
        wrong: Any
        for wrong in (None, 5):
            with pytest.raises(InvalidParameter, match="the messages to acknowledge must be a list, got"):
                await consumer.ack(wrong)
        for wrong in ([None], [5], (Message("t", b"x"),)):
            with pytest.raises(InvalidParameter, match="not a receipt handle"):
                await consumer.ack(wrong)
        for wrong in (1.5, True, "5"):
            assert "max_n must be a whole number from 1 to 32" in await refused(consumer, max_n=wrong)
        assert "invisible_s must be 0.1 to 43200, got None" in await refused(consumer, invisible_s=None)

    simulate(scenario)
