"""A batch that fails: it is tried again as a whole."""

from __future__ import annotations

import anyio
import pytest

from model.message import Message, SendResult
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

__all__ = ["wire"]
pytestmark = pytest.mark.simulation


def test_a_batch_whose_broker_fails_in_between_goes_to_another_one_as_a_whole(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        simulated = await cluster.start_producer(host="p", avoid_slow_brokers=False)
        for name in cluster.brokers:
            cluster.simulation.network.set_latency("p", name, 0.2)
        await simulated.send("t", b"first")
        results: list[SendResult] = []

        async def send() -> None:
            with cluster.simulation.on_host("p"):
                results.extend(await simulated.producer.send_batch([Message("t", b"1"), Message("t", b"2")]))

        wire.sent.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.sleep(0.05)
            (failing,) = [sent.target for sent in wire.sent if sent.code is RequestCode.SEND_BATCH_MESSAGE]
            cluster.simulation.network.cut("p", failing)
        assert {result.queue.broker_name for result in results} == {*cluster.brokers} - {failing}
        assert results[1].offset == results[0].offset + 1

    simulate(scenario)
