"""Order at a handover; `rlab sim --kind order --seeds 500` runs many programmes under churn."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def test_a_member_that_gets_a_queue_back_waits_for_the_listener_it_left_behind(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async def takes_long_for_the_first(message: MessageExt) -> None:
            if message.body == b"0":
                await anyio.sleep(20)

        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        options: dict[str, Any] = {"order": "queue", "session_timeout_s": 3.0, "shutdown_grace_s": 60.0}
        cluster.client_options["heartbeat_interval_s"] = 0.7
        slow = await cluster.start_consumer("g", "t", work=takes_long_for_the_first, **options)
        other = await cluster.start_consumer("g", "t", **options)
        await cluster.wait_converged(2.0)
        await producer.send_many("t", 1)
        await anyio.sleep(1)
        with slow.hang():
            await anyio.sleep(5)
            await other.stop()  # it has processed and committed the message that the slow one still has
        slow.live = True
        await producer.send_many("t", 1, first=1)
        await anyio.sleep(30)
        assert other.bodies == [b"0"]
        assert slow.bodies == [b"0", b"1"]
        began, went_on = (delivery.time_s for delivery in slow.deliveries)
        assert went_on >= began + 20

    simulate(scenario, brokers=1)
