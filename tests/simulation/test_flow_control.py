"""A queue of which too much is unfinished is not pulled, until less is; in whatever order it is consumed."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_consuming import committed

pytestmark = pytest.mark.simulation

PULL_BATCH = 32
LIMITS = {"max_queue_span": 100, "max_queue_count": 50, "max_queue_bytes": 500}


@pytest.mark.parametrize(
    ("order", "limit", "handed_out"),
    [
        # A stuck key stops nobody else until the span is full; a stuck queue hands nothing else out.
        ("none", "max_queue_span", 100 + 1),
        ("key", "max_queue_span", 100 + 1),
        ("queue", "max_queue_span", 1),
        ("queue", "max_queue_count", 1),
        ("queue", "max_queue_bytes", 1),
    ],
)
def test_a_stuck_message_stops_the_pull_at_the_limit_and_its_end_lets_it_go_on(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, order: str, limit: str, handed_out: int
) -> None:
    caplog.set_level(logging.INFO, "client.pull.loop")

    async def scenario(cluster: SimulatedCluster) -> None:
        stuck = anyio.Event()
        limits: dict[str, Any] = {limit: LIMITS[limit]}

        async def work(message: MessageExt) -> None:
            if message.offset == 0:
                await stuck.wait()

        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        consumer = await cluster.start_consumer("g", "t", work=work, order=order, pull_batch=PULL_BATCH, **limits)
        await cluster.wait_converged(2)
        for n in range(400):
            await producer.send("t", b"0123456789", key=f"k{n % 100}")
        await anyio.sleep(20)
        share = consumer.consumer._ownership
        assert share is not None
        (owned,) = [owned for queue, owned in share.owned.items() if queue.topic == "t"]
        process_queue = owned.process_queue
        assert process_queue.flow_control_reason() is not None
        assert process_queue.pull_offset <= LIMITS["max_queue_span"] + 2 * PULL_BATCH
        assert handed_out <= len(consumer.deliveries) <= handed_out + PULL_BATCH
        assert committed(cluster) in (None, 0)
        stuck.set()
        await anyio.sleep(5)
        assert [delivery.message.offset for delivery in consumer.deliveries if delivery.finished][-1] == 399
        assert len(consumer.deliveries) == 400
        await anyio.sleep(6)
        assert committed(cluster) == 400

    simulate(scenario, brokers=1)
    reported = [record.getMessage() for record in caplog.records if record.name == "client.pull.loop"]
    assert ["is not pulled" in line or "is pulled again" in line for line in reported] == [True, True], reported


def test_a_backlog_that_moves_is_nothing_to_report(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "client.pull.loop")

    async def work(message: MessageExt) -> None:
        await anyio.sleep(0.02)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await (await cluster.start_producer()).send_many("t", 10)
        consumer = await cluster.start_consumer("g", "t", work=work, order="key", max_queue_count=20)
        await (cluster.producers[0]).send_many("t", 400, first=10)
        await anyio.sleep(20)
        assert len(consumer.deliveries) >= 400

    simulate(scenario, brokers=1)
    assert [record for record in caplog.records if record.name == "client.pull.loop"] == []
