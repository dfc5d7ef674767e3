from __future__ import annotations

import pytest

from testbed.bench.kit.echo import TOPIC
from testbed.bench.throughput.half_away import IN_FLIGHT, send_all
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate, simulate

__all__ = ["simulate"]


def test_sends_that_fail_are_counted_and_have_no_part_in_the_times(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic(TOPIC, queues=1)
        producer = await cluster.start_producer(host="p", retries=0, timeout_s=0.5, avoid_slow_brokers=False)
        await producer.send_many(TOPIC, 2)
        cluster.simulation.network.set_latency("p", "broker-a", 0.1)
        with cluster.simulation.network.stall("broker-b"), cluster.simulation.on_host("p"):
            times_ms, errors = await send_all(producer.producer, 2 * IN_FLIGHT, cluster.simulation.loop.time)
        assert len(times_ms) + len(errors) == 2 * IN_FLIGHT
        assert len(errors) >= IN_FLIGHT // 2
        assert times_ms == pytest.approx([200] * len(times_ms), abs=5)

    simulate(scenario)
