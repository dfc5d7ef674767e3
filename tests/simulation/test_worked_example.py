"""The example that articles about RocketMQ's rebalance work through, on a running cluster."""

from __future__ import annotations

import pytest

from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def test_nine_queues_on_three_brokers_are_shared_by_four_members_in_blocks(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=3)
        for last in (8, 6, 9, 7):  # the order in which they come does not matter
            await cluster.start_consumer("g", "t", host=f"192.168.0.{last}", instance_name=f"1595{last}")
        await cluster.wait_converged(1)
        shares = {
            consumer.client_id: [f"{queue.broker_name[-1]}{queue.queue_id}" for queue in consumer.queues]
            for consumer in cluster.consumers
        }
        assert shares == {
            "192.168.0.6@15956": ["a0", "a1", "a2"],
            "192.168.0.7@15957": ["b0", "b1"],
            "192.168.0.8@15958": ["b2", "c0"],
            "192.168.0.9@15959": ["c1", "c2"],
        }

    simulate(scenario, brokers=3)
