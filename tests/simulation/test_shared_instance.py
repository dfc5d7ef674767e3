"""Consumers and producers that share one client instance: one connection to each server, and nobody is in the way."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.errors import IllegalOperation
from model.events import EventKind
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def test_consumers_of_one_instance_name_share_one_connection_to_each_broker(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        shared: dict[str, Any] = {"host": "c", "instance_name": "shared"}
        first = await cluster.start_consumer("g1", "t", **shared)
        second = await cluster.start_consumer("g2", "t", **shared)
        producer = await cluster.start_producer(**shared)
        await cluster.wait_converged(1)
        await producer.send("t", b"x")
        assert first.client_id == second.client_id == "c@shared"
        for server in ("broker-a", "broker-b", "namesrv-1"):
            assert len(cluster.simulation.network.connections("c", server)) == 1
        await first.stop()
        await anyio.sleep(1)
        assert len(cluster.simulation.network.connections("c")) == 3, "the others go on"
        await producer.send("t", b"y")
        await anyio.sleep(1)
        assert sorted(second.bodies) == [b"x", b"y"]
        await second.stop()
        await producer.stop()
        await anyio.sleep(0.1)
        assert cluster.simulation.network.connections("c") == ()

    simulate(scenario)


def test_a_second_consumer_of_the_group_on_one_instance_is_refused_and_disturbs_no_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        shared: dict[str, Any] = {"host": "c", "instance_name": "shared"}
        first = await cluster.start_consumer("g", "t", **shared)
        second = cluster.make_consumer("g", **shared)
        await second.subscribe("t")
        with pytest.raises(IllegalOperation, match=r"has a consumer of group 'g' already: .*instance_name"):
            await second.start()
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(1)
        assert len(first.bodies) == 10
        assert not cluster.events_of(EventKind.MEMBER_LEAVE)

    simulate(scenario)


def test_a_consumer_may_leave_a_shared_instance_and_another_of_its_group_take_its_place(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        shared: dict[str, Any] = {"host": "c", "instance_name": "shared"}
        await cluster.start_consumer("other", "t", **shared)
        for _ in range(3):
            consumer = await cluster.start_consumer("g", "t", **shared)
            await cluster.wait_converged(1)
            await consumer.stop()
        await cluster.start_consumer("g", "t", **shared)
        await cluster.wait_converged(1)

    simulate(scenario)
