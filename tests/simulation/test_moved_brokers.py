"""Brokers that return at another address, as in a new container: clients ask for it as soon as a connection fails."""

from __future__ import annotations

import anyio
import pytest

from client.options import ConsumeMode
from model.errors import RlabError
from model.events import EventKind
from model.limits import BROKER_CHECK_INTERVAL_S, BROKER_CHECK_S
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

__all__ = ["wire"]
pytestmark = pytest.mark.simulation

BACK_S = 3.0


async def seconds_until_sent(producer: SimulatedProducer, body: bytes) -> float:
    began = anyio.current_time()
    while True:
        try:
            await producer.send("orders", body)
        except RlabError:
            await anyio.sleep(0.05)
        else:
            return anyio.current_time() - began


@pytest.mark.parametrize("away_s", [0.2, 8.0, 20.0])
@pytest.mark.parametrize("mode", [ConsumeMode.PULL, ConsumeMode.POP])
def test_a_broker_that_returns_at_another_address_is_used_again_within_three_seconds(
    simulate: Simulate, mode: ConsumeMode, away_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        consumer = await cluster.start_consumer("billing", "orders", mode=mode)
        producer = await cluster.start_producer()
        await producer.send("orders", b"before")
        await anyio.sleep(10)
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(away_s)
        await cluster.brokers["broker-a"].start("broker-a-2")
        # One after the other: a message is sent and received.
        assert await seconds_until_sent(producer, b"after") < BACK_S
        await anyio.sleep(BACK_S)
        assert consumer.bodies == [b"before", b"after"]

    simulate(scenario, brokers=1)


def test_fifty_first_sends_at_once_take_no_new_broker_for_one_that_has_moved(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        producer = await cluster.start_producer()
        async with anyio.create_task_group() as sends:
            for n in range(50):
                sends.start_soon(producer.send, "orders", b"%d" % n)
        assert [event for event in cluster.events_of(EventKind.BROKER_UP) if event.client] == []

    simulate(scenario, brokers=1)


def test_while_a_broker_is_lost_a_client_asks_for_its_routes_once_a_second_for_a_minute_and_not_more_often(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        consumer = await cluster.start_consumer("billing", "orders")
        await anyio.sleep(10)
        # All brokers cannot be reached by this client, and stay in the routes.
        for name in cluster.brokers:
            cluster.simulation.network.refuse(name, 10911)
            cluster.simulation.network.cut(consumer.host, name)
        lost = anyio.current_time()
        await anyio.sleep(300)
        asked = [sent.time_s - lost for sent in wire.sent if (sent.source, sent.target) == (consumer.host, "namesrv-1")]
        early = [time_s for time_s in asked if 0 < time_s < BROKER_CHECK_S]
        polls = 300 / 30 + 1
        assert (
            BROKER_CHECK_S / BROKER_CHECK_INTERVAL_S * 0.9 <= len(early) <= BROKER_CHECK_S / BROKER_CHECK_INTERVAL_S + 5
        )
        assert sum(time_s >= BROKER_CHECK_S for time_s in asked) <= polls

    simulate(scenario, brokers=3)


def written_to(producer: SimulatedProducer) -> set[str]:
    return {queue.broker_name for queue in producer.producer._running().routes.publish_queues("orders")}


def test_while_a_broker_restarts_keys_stay_with_their_queues(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        producer = await cluster.start_producer()
        await producer.send("orders", b"before")
        await anyio.sleep(5)  # the first poll is over
        await cluster.brokers["broker-a"].crash()
        for _ in range(20):
            await anyio.sleep(0.25)
            assert written_to(producer) == {"broker-a", "broker-b"}

    simulate(scenario, brokers=2)


def test_a_broker_that_a_poll_has_missed_is_written_to_again_within_three_seconds(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        producer = await cluster.start_producer()
        await producer.send("orders", b"before")
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(5)
        with cluster.simulation.on_host(producer.host):
            await producer.producer._running().poll_routes()
        assert written_to(producer) == {"broker-b"}
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(BACK_S)
        assert written_to(producer) == {"broker-a", "broker-b"}

    simulate(scenario, brokers=2)
