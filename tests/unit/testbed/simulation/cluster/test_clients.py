"""Consumers that write down what they get, and that can be killed or hang."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client.listeners.listener import ConsumeResult
from model.events import EventKind
from model.limits import LEASE_CLOSE_GRACE_S
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation


def test_a_delivery_is_finished_only_when_its_listener_returned_success(tmp_path: Path) -> None:
    async def work(message: MessageExt) -> ConsumeResult | None:
        if message.body == b"fails":
            raise ValueError("no")
        if message.body == b"later":
            return ConsumeResult.RECONSUME_LATER
        if message.body == b"hangs":
            await anyio.sleep_forever()
        return None

    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t")
            consumer = await cluster.start_consumer("g", "t", work=work, shutdown_grace_s=1.0, retry_delay_ms=2_000)
            producer = await cluster.start_producer()
            for body in (b"good", b"fails", b"later", b"hangs"):
                await producer.send("t", body)
            await anyio.sleep(1)
            assert sorted(consumer.bodies) == [b"fails", b"good", b"hangs", b"later"]
            assert [delivery.body for delivery in consumer.deliveries if delivery.finished] == [b"good"]
            await anyio.sleep(5)
            again = [delivery for delivery in consumer.deliveries if delivery.times_delivered == 1]
            assert sorted(delivery.body for delivery in again) == [b"fails", b"later"]

    run_simulation(main)


def test_a_crashed_consumer_is_gone_for_its_brokers_and_does_nothing_more(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t")
            consumer = await cluster.start_consumer("g", "t")
            await cluster.wait_converged(1)
            await consumer.crash()
            await anyio.sleep(LEASE_CLOSE_GRACE_S + 0.01)
            assert not consumer.live
            (leave,) = cluster.events_of(EventKind.MEMBER_LEAVE)
            assert leave.detail == "close"
            assert not cluster.events_of(EventKind.CLIENT_STOP)
            at = len(cluster.events)
            await anyio.sleep(200)
            assert cluster.events[at:] == []

    run_simulation(main)


def test_a_hung_consumer_stays_connected_and_comes_back(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster:
            await cluster.create_topic("t")
            consumer = await cluster.start_consumer("g", "t")
            await cluster.wait_converged(1)
            hung = consumer.hang()
            assert cluster.target("g") == {}
            await anyio.sleep(10)
            assert not cluster.events_of(EventKind.MEMBER_LEAVE)
            hung.heal()
            consumer.live = True
            await cluster.wait_converged(1)

    run_simulation(main)
