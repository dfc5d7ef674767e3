"""The states of a cluster in which `test_tool_matrix.py` asks each tool."""

from __future__ import annotations

import anyio

from client.admin.admin import Admin
from testbed.simulation.cluster.cluster import SimulatedCluster

DAY_MS = 86_400_000
GROUP = "billing"


async def some_life(cluster: SimulatedCluster) -> None:
    """Two members of a group, four queues, and messages before and after a third member that joins and leaves."""
    cluster.client_options["trace"] = True
    await cluster.create_topic("orders", queues=2)
    for _ in range(2):
        await cluster.start_consumer(GROUP, "orders")
    await cluster.wait_converged(5)
    producer = await cluster.start_producer()
    await producer.send_many("orders", 20)
    third = await cluster.start_consumer(GROUP, "orders")
    await cluster.wait_converged(5)
    await third.stop()
    await cluster.wait_converged(5)
    await producer.send_many("orders", 20)
    await anyio.sleep(10)


async def all_well(cluster: SimulatedCluster) -> None:
    await some_life(cluster)


async def head_of_the_trace_gone(cluster: SimulatedCluster) -> None:
    await some_life(cluster)


async def broker_killed(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    await cluster.brokers["broker-a"].crash()
    await anyio.sleep(6)


async def broker_gone_for_good(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    await cluster.brokers["broker-a"].crash()
    await anyio.sleep(50)


async def broker_back(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    await cluster.brokers["broker-a"].crash()
    await anyio.sleep(6)
    await cluster.brokers["broker-a"].start()
    await anyio.sleep(30)


async def name_server_gone(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    await cluster.name_servers["namesrv-2"].crash()
    await anyio.sleep(6)


async def client_2_s_ahead(cluster: SimulatedCluster) -> None:
    cluster.skewed_ms["c1"] = 2_000
    await some_life(cluster)


async def client_a_day_ahead(cluster: SimulatedCluster) -> None:
    cluster.skewed_ms["c1"] = DAY_MS
    await some_life(cluster)


async def broker_clock_stepped(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    cluster.skewed_ms["broker-a"] = 5_000
    await (await cluster.start_producer()).send_many("orders", 20)
    await anyio.sleep(10)


async def member_killed(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    await cluster.consumers[0].crash()
    await anyio.sleep(6)


async def member_cut_off(cluster: SimulatedCluster) -> None:
    """Its host is gone without a word, so its connections look open until its session ends after 120 s."""
    await some_life(cluster)
    cluster.consumers[0].hang()
    await anyio.sleep(80)


async def group_that_pops(cluster: SimulatedCluster) -> None:
    cluster.client_options["trace"] = True
    await cluster.create_topic("orders", queues=2)
    for _ in range(2):
        await cluster.start_popper(GROUP, "orders")
    await (await cluster.start_producer()).send_many("orders", 20)
    await anyio.sleep(10)


async def empty_group(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    for consumer in cluster.consumers:
        if consumer.live:
            await consumer.stop()
    await anyio.sleep(5)


async def topic_recreated(cluster: SimulatedCluster) -> None:
    await some_life(cluster)
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            await admin.delete_topic("orders")
    await anyio.sleep(1)
    await cluster.create_topic("orders", queues=2)
    await anyio.sleep(60)
    await (await cluster.start_producer()).send_many("orders", 20)
    await anyio.sleep(10)
