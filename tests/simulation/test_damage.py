"""Damage to the files of a broker: everybody hears how many messages are lost, and everything else goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import pytest

from broker.store.disk.options import StoreOptions
from client.admin.admin import Admin
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

SEGMENT_BYTES = 4_000
N = 200


def segments(cluster: SimulatedCluster) -> list[Path]:
    return [path for path in sorted((cluster.data_dir / "broker-a").glob("*.log")) if path.stat().st_size > 500]


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("how", ["gone", "cut"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_consumer_that_is_moved_past_a_hole_counts_what_it_misses_and_it_is_shown(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, which: str, how: str, end: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        for number in range(N):
            await producer.send("t", b"%d" % number)
        broker = cluster.brokers["broker-a"]
        await (broker.stop() if end == "stop" else broker.crash())
        found = segments(cluster)
        path = {"first": found[0], "middle": found[len(found) // 2], "last": found[-1]}[which]
        if how == "gone":
            path.unlink()
        else:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size // 2)
        cluster.events.clear()
        await broker.start()
        with caplog.at_level(logging.WARNING):
            consumer = await cluster.start_consumer("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET)
            await anyio.sleep(30)
        got = sorted(int(delivery.body) for delivery in consumer.deliveries)
        lost = N - len(got)
        assert got == sorted(set(got))
        assert lost > 0
        assert sum(event.n for event in cluster.events_of(EventKind.MESSAGES_DAMAGED)) == lost
        assert {event.detail for event in cluster.events_of(EventKind.MESSAGES_DAMAGED)} == {path.name}
        assert sum(event.n for event in cluster.events_of(EventKind.OFFSET_MOVED, group="g")) == lost
        assert (consumer.consumer.missed.damaged, consumer.consumer.missed.deleted) == (lost, 0)
        assert "they are damaged or missing at the broker" in caplog.text
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                group = await admin.group("g")
                topic = (await admin.broker_info("broker-a")).topic("t")
        assert topic is not None
        assert sum(held.damaged for held in topic.ranges) == sum(queue.damaged for queue in group.queues) == lost
        assert group.lag == 0
        ends = [held.max_offset for held in topic.ranges]
        assert sum(ends) == N
        result = await (await cluster.start_producer()).send("t", b"%d" % N)
        assert result.offset in ends, "no offset of a lost message is given again"
        await anyio.sleep(5)
        assert int(consumer.deliveries[-1].body) == N

    simulate(scenario, brokers=1, store=StoreOptions(segment_bytes=SEGMENT_BYTES, tail_bytes=SEGMENT_BYTES))
