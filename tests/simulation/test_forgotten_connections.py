"""Connections that a router has forgotten: packets are dropped, nothing is closed, and new connections work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from client import Admin
from client.options import ConsumeMode
from model.errors import RequestTimeout, RlabError
from model.events import EventKind
from model.limits import PING_TIMEOUT_S, REQUEST_TIMEOUT_S
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

BACK_S = 15.0


def forget(cluster: SimulatedCluster, host: str, other: str | None = None) -> None:
    """Let routers forget all connections of a host, or those to another one."""
    connections = cluster.simulation.network.connections(host, other)
    assert connections
    for connection in connections:
        cluster.simulation.network.forget(connection)


async def seconds_until(works: Callable[[], Awaitable[object]]) -> float:
    """Try it until it works."""
    began = anyio.current_time()
    while True:
        try:
            await works()
        except RlabError:
            await anyio.sleep(0.05)
        else:
            return anyio.current_time() - began


@pytest.mark.parametrize("outstanding", [1, 64])
def test_a_producer_leaves_a_forgotten_connection_and_sends_again_within_fifteen_seconds(
    simulate: Simulate, outstanding: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=1)
        producer = await cluster.start_producer()
        await producer.send("orders", b"before")
        forget(cluster, producer.host)
        async with anyio.create_task_group() as senders:
            for _ in range(outstanding):
                senders.start_soon(seconds_until, lambda: producer.send("orders", b"x"))
            began = anyio.current_time()
        # A request that fails is the first sign: the keepalive of the system probes only idle connections.
        assert anyio.current_time() - began < REQUEST_TIMEOUT_S + PING_TIMEOUT_S + 1 < BACK_S

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("mode", [ConsumeMode.PULL, ConsumeMode.POP])
def test_an_idle_consumer_leaves_a_forgotten_connection_and_receives_again_within_fifteen_seconds(
    simulate: Simulate, mode: ConsumeMode
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=1)
        consumer = await cluster.start_consumer("billing", "orders", mode=mode)
        producer = await cluster.start_producer()
        await anyio.sleep(65)
        forget(cluster, consumer.host)
        await producer.send("orders", b"soon")
        await anyio.sleep(BACK_S)
        # A pop that the broker has answered on the old connection is over, and its message comes again.
        assert consumer.bodies == ([b"soon"] if mode is ConsumeMode.PULL else [])
        # No pop that waits on the old connection takes it: the broker has ended that one.
        await producer.send("orders", b"later")
        await anyio.sleep(0.1)
        assert consumer.bodies[-1:] == [b"later"]
        await anyio.sleep(120)
        assert sorted(consumer.bodies) == [b"later", b"soon"]
        assert not cluster.events_of(EventKind.MEMBER_LEAVE)

    simulate(scenario, brokers=1)


def test_a_broker_leaves_a_forgotten_connection_to_a_name_server_and_registers_a_change_within_fifteen_seconds(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=1)
        await anyio.sleep(1)
        forget(cluster, "broker-a", "namesrv-1")
        began = anyio.current_time()
        await cluster.create_topic("invoices", queues=1)
        assert anyio.current_time() - began < BACK_S
        await anyio.sleep(60)  # the name server closes its end, and has the broker on another connection
        async with Admin(cluster.addresses) as admin:
            assert (await admin.route("invoices")).brokers

    simulate(scenario, brokers=1)


def test_administration_leaves_a_forgotten_connection_within_fifteen_seconds(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=1)
        with cluster.simulation.on_host("desk"):
            async with Admin(cluster.addresses) as admin:
                await admin.broker_info("broker-a")
                forget(cluster, "desk")
                assert await seconds_until(lambda: admin.broker_info("broker-a")) < BACK_S

    simulate(scenario, brokers=1)


def test_the_error_of_a_request_says_that_its_connection_was_left(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        address = cluster.brokers["broker-a"].address
        with cluster.simulation.on_host("desk"):
            async with RemotingClient() as client:
                connection = await client.connect(address)
                forget(cluster, "desk")
                soon = connection.request(RequestCode.GET_GROUP_LIST, timeout_s=1.0)
                later = connection.request(RequestCode.GET_GROUP_LIST, timeout_s=60.0)
                with pytest.raises(RequestTimeout):
                    await soon
                with pytest.raises(
                    RlabError, match="closed because nothing arrived over it, not even the answer to a ping"
                ):
                    await later
                assert client.connected(address) is None

    simulate(scenario, brokers=1)


def test_a_server_that_is_only_slow_keeps_its_connections(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=1)
        producer = await cluster.start_producer()
        await producer.send("orders", b"before")
        cluster.simulation.network.set_latency(producer.host, "broker-a", 1.2)
        [*before] = cluster.simulation.network.connections(producer.host, "broker-a")
        connection = next(iter(producer.producer._masters.values()))
        with pytest.raises(RequestTimeout):
            await connection.request(RequestCode.GET_GROUP_LIST, timeout_s=0.5)
        await anyio.sleep(10)
        assert [*cluster.simulation.network.connections(producer.host, "broker-a")] == before
        await producer.send("orders", b"slow")

    simulate(scenario, brokers=1)
