"""A broker that restarts is away for a moment, and nothing moves because of it."""

from __future__ import annotations

import anyio
import pytest

from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_poll_into_the_gap_of_a_restarting_broker_moves_no_queue(simulate: Simulate, how: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        consumers = [await cluster.start_consumer("g", "t") for _ in range(3)]
        await anyio.sleep(5)
        queues = [consumer.queues for consumer in consumers]
        tokens = [lease_tokens(cluster)]
        broker = cluster.brokers["broker-a"]
        await (broker.stop() if how == "stop" else broker.crash())
        for consumer in consumers[:2]:  # not everybody polls in that moment
            assert consumer.consumer._instance is not None
            with cluster.simulation.on_host(consumer.host):
                await consumer.consumer._instance.poll_routes()
        await anyio.sleep(1)
        await broker.start()
        await anyio.sleep(5)
        assert [consumer.queues for consumer in consumers] == queues
        assert lease_tokens(cluster) == tokens[0]

    simulate(scenario)


def lease_tokens(cluster: SimulatedCluster) -> dict[object, int]:
    """Token of every lease: it changes when a queue is granted to somebody."""
    return {
        (name, queue): lease.token
        for name, server in cluster.brokers.items()
        for queue, lease in server.running.broker.leases.table._leases["g"].items()
    }
