"""Members that pass queues on to each other, all at the same time."""

from __future__ import annotations

import anyio

from model.events import EventKind
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def test_members_that_pass_queues_on_give_before_they_take_so_that_no_one_is_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=12)
        for number in range(1, 6):
            await cluster.start_consumer("g", "t", instance_name=f"c{number}")
        await cluster.wait_converged(1)
        await anyio.sleep(1)
        at = len(cluster.events)
        first = await cluster.start_consumer("g", "t", instance_name="c0")
        await cluster.wait_converged(1)
        assert len(first.queues) == 2
        moved = cluster.events_of(EventKind.QUEUE_ACQUIRED, at, topic="t")
        assert len(moved) > 2, "it sorts first, and moves queues of the others, too"
        others = [e for e in cluster.events_of(EventKind.LOCK_REFUSED, at, topic="t") if e.client != first.client_id]
        assert others == []

    simulate(scenario, brokers=1)


def test_a_broker_that_hangs_does_not_keep_a_member_from_taking_queues_of_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        await cluster.start_consumer("g", "t", instance_name="c1", host="c1")
        second = await cluster.start_consumer("g", "t", instance_name="c2", host="c2")
        await cluster.wait_converged(1)
        await anyio.sleep(1)
        before = {queue.broker_name for queue in second.queues}
        assert before == {"broker-b"}
        with cluster.simulation.network.stall("broker-b"):
            await cluster.start_consumer("g", "t", instance_name="c3", host="c3")
            await anyio.sleep(0.6)
            assert "broker-a" in {queue.broker_name for queue in second.queues}

    simulate(scenario)
