"""The offset at which a queue without a lease begins: settled at the subscription, found later by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.unit.client.rebalance.test_unleased_queues import document, member, numbers


@pytest.mark.parametrize("off_ms", [-60_000, 60_000])
def test_where_it_begins_is_settled_before_its_start_returns_and_without_asking_clocks(
    simulate: Simulate, tmp_path: Path, off_ms: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        wrong: dict[str, Any] = {"clock_ms": lambda: cluster.simulation.clock_ms() + off_ms}
        first = await member(cluster, tmp_path, "m1", **wrong)
        await first.crash()
        await producer.send_many("t", 10, first=10)
        second = await member(cluster, tmp_path, "m1", **wrong)
        await anyio.sleep(1)
        assert numbers(second) == list(range(10, 20))

    simulate(scenario)


def test_queues_that_are_created_later_are_read_from_their_beginning(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        waiting = await member(cluster, tmp_path, "m1", "u", route_poll_interval_s=30)
        await anyio.sleep(5)
        growing = await member(cluster, tmp_path, "m2", route_poll_interval_s=30)
        await anyio.sleep(5)
        await cluster.create_topic("t", queues=4)
        await cluster.create_topic("u", queues=2)
        producer = await cluster.start_producer()
        await producer.send_many("t", 40)
        await producer.send_many("u", 20)
        await anyio.sleep(40)  # both learn of their queues long after they were filled
        assert numbers(growing) == list(range(40))
        assert numbers(waiting) == list(range(20))

    simulate(scenario)


def test_a_broker_that_is_away_for_long_costs_no_offset(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await member(cluster, tmp_path, "m1")
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        await anyio.sleep(6)
        before = document(tmp_path, "m1")["topics"]["t"]["offsets"]
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(400)
        assert [queue.broker_name for queue in consumer.queues] == ["broker-b"], "its queue is no longer in a route"
        assert document(tmp_path, "m1")["topics"]["t"]["offsets"] == before
        await cluster.brokers["broker-a"].start()
        producer = await cluster.start_producer()
        await producer.send("t", b"20", queue=MessageQueue("t", "broker-a", 0))  # before the consumer knows of it
        await anyio.sleep(60)
        assert numbers(consumer) == list(range(21))

    simulate(scenario)
