"""The yardstick: what is true decides the target, and every kind of difference is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.allocate import AllocateMessageQueueAveragelyByCircle
from model.message_queue import MessageQueue
from model.names import retry_topic
from model.topic_route import Perm
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.convergence import Owners, differences
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation

A0, A1, B0 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1), MessageQueue("t", "broker-b", 0)


def test_the_target_follows_processes_topics_and_strategy(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path) as cluster:
            await cluster.create_topic("t", queues=2)
            circle = AllocateMessageQueueAveragelyByCircle()
            first = await cluster.start_consumer("g", "t", strategy=circle)
            second = await cluster.start_consumer("g", "t", strategy=circle)
            target = cluster.target("g")
            assert [owners for _, owners in sorted(target.items())] == [
                (first.client_id,),
                (second.client_id,),
                (first.client_id,),
                (second.client_id,),
            ]
            await cluster.brokers["broker-b"].stop()
            assert [queue.broker_name for queue in cluster.target("g")] == ["broker-a", "broker-a"]
            await second.crash()
            assert set(cluster.target("g").values()) == {(first.client_id,)}
            await cluster.create_topic("t", queues=1, perm=Perm.WRITE)
            assert cluster.target("g") == {}

    run_simulation(main)


def test_retry_topics_count_only_when_asked_for(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t", queues=1)
            consumer = await cluster.start_consumer("g", "t")
            retry = MessageQueue(retry_topic("g"), "broker-a", 0)
            await cluster.wait_converged(5, retry_topics=True)
            assert cluster.owners("g") == {A0: (consumer.client_id,)}
            assert cluster.owners("g", retry_topics=True) == {A0: (consumer.client_id,), retry: (consumer.client_id,)}

    run_simulation(main)


def test_every_difference_is_named() -> None:
    target: Owners = {A0: ("c1",), A1: ("c1",), B0: ("c2",)}
    owners: Owners = {A0: ("c1",), A1: ("c1", "c2")}
    assert differences("g", target, target, []) == []
    assert differences("g", target, owners, []) == [
        "t@broker-a:1 should belong to c1, and belongs to c1 and c2",
        "t@broker-b:0 should belong to c2, and belongs to no member",
    ]


def test_a_queue_without_a_lease_is_a_difference(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t", queues=1)
            consumer = await cluster.start_consumer("g", "t")
            await cluster.wait_converged(5)
            brokers = [cluster.brokers["broker-a"].running]
            assert differences("other", {A0: (consumer.client_id,)}, {A0: (consumer.client_id,)}, brokers) == [
                f"t@broker-a:0 is not leased to {consumer.client_id}"
            ]

    run_simulation(main)
