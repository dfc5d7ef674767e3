"""A broker is drained when nothing comes to it and its groups have read all it has."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from cli.servers.upkeep.drain import DrainResult, drain_broker
from client.admin.admin import Admin
from model.errors import InvalidParameter
from model.limits import ROUTE_POLL_INTERVAL_S
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer


def test_producers_leave_a_broker_that_is_drained_and_come_back_afterwards(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("orders", queues=2)
        consumer = await cluster.start_consumer("billing", "orders")
        producer = await cluster.start_producer()
        used: list[str] = []

        async def send_all_the_time() -> None:
            while True:
                used.append((await producer.send("orders", b"m")).queue.broker_name)
                await anyio.sleep(0.5)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_all_the_time)
            await anyio.sleep(5)
            assert set(used) == {"broker-a", "broker-b"}
            done = await drain_broker(admin, "broker-a", 300.0)
            assert (done.drained, done.left) == (True, {})
            assert ROUTE_POLL_INTERVAL_S < done.seconds < 3 * ROUTE_POLL_INTERVAL_S
            used.clear()
            await anyio.sleep(5)
            assert set(used) == {"broker-b"}, "another broker takes what comes"
            assert consumer.queues, "its members have not left"
            await admin.allow_writes("broker-a", allowed=True)
            await anyio.sleep(ROUTE_POLL_INTERVAL_S + 1)
            used.clear()
            await anyio.sleep(5)
            assert set(used) == {"broker-a", "broker-b"}
            tasks.cancel_scope.cancel()

    administer(scenario, tmp_path, brokers=2, name_servers=2)


def test_what_a_group_has_not_read_is_left_at_the_end_of_the_time(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> DrainResult:
        await cluster.create_topic("orders", queues=1)
        consumer = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        await consumer.stop()
        producer = await cluster.start_producer()
        for _ in range(3):
            await producer.send("orders", b"m")
        with pytest.raises(InvalidParameter, match=r"not everywhere: name server .*'nowhere'.*known are broker-a"):
            await drain_broker(admin, "nowhere", 60.0)
        return await drain_broker(admin, "broker-a", 60.0)

    done = administer(scenario, tmp_path, brokers=1)
    assert (done.drained, done.left) == (False, {"billing": 3})
    assert done.seconds == pytest.approx(60.0, abs=2.0)
