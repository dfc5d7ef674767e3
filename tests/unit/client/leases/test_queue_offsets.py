"""What brokers tell of the offsets of a queue."""

from __future__ import annotations

import anyio
import pytest

from client.leases.queue_offsets import QueueOffsets
from model.errors import InvalidParameter, NetworkError, TopicNotExist
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

QUEUE = MessageQueue("t", "broker-a", 0)


def test_a_queue_reports_its_ends_its_times_and_what_a_group_committed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        assert consumer.consumer._instance is not None
        ask = QueueOffsets(consumer.consumer._instance)
        producer = await cluster.start_producer()
        await producer.send_many("t", 3)
        await anyio.sleep(10)
        now_ms = int(cluster.simulation.clock_ms())
        with cluster.simulation.on_host(consumer.host):
            assert await ask.committed(QUEUE, "g") == 3
        await producer.send_many("t", 2, first=3)
        with cluster.simulation.on_host(consumer.host):
            assert (await ask.first(QUEUE), await ask.end(QUEUE)) == (0, 5)
            assert [await ask.at(QUEUE, ms) for ms in (0, now_ms, now_ms + 60_000)] == [0, 3, 5]
            assert await ask.committed(QUEUE, "other") is None
            with pytest.raises(TopicNotExist):
                await ask.end(MessageQueue("none", "broker-a", 0))
            with pytest.raises(InvalidParameter):
                await ask.end(MessageQueue("t", "broker-a", 9))
            with pytest.raises(NetworkError):
                await ask.end(MessageQueue("t", "broker-z", 0))
            await cluster.brokers["broker-a"].crash()
            with pytest.raises(NetworkError):
                await ask.committed(QUEUE, "g")

    simulate(scenario, brokers=1)
