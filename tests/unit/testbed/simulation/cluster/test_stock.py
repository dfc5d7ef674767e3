"""Consumers of RocketMQ 5 in the simulation; what brokers promise them is in tests/simulation/test_stock_members.py."""

from __future__ import annotations

import anyio
import pytest

from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.stock_consumers import Notes, set_group, start_stock

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("is_push", [True, False])
def test_each_kind_consumes_every_message_and_retries_what_fails(simulate: Simulate, *, is_push: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await set_group(cluster, max_attempts=2, retry_delays_ms=[500])
        notes = Notes(fails_once={b"3"}, fails={b"4"})
        member = await start_stock(cluster, notes, is_push=is_push)
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        await anyio.sleep(60)
        sent = {b"%d" % n for n in range(20)}
        assert set(notes.ended) >= (sent if is_push else sent - {b"4"})
        assert notes.bodies.count(b"3") >= 2
        if is_push:
            assert notes.bodies.count(b"4") == 3, "then it is a dead letter"
        await member.stop()
        assert not member.live

    simulate(scenario)


def test_a_killed_one_sends_nothing_more_and_one_that_hangs_comes_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        killed, hung = Notes(), Notes()
        await (await start_stock(cluster, killed)).crash()
        second = await start_stock(cluster, hung)
        fault = second.hang()
        producer = await cluster.start_producer()
        await producer.send_many("t", 5)
        await anyio.sleep(5)
        assert (killed.got, hung.got) == ([], [])
        fault.heal()
        second.live = True
        await anyio.sleep(30)
        assert set(hung.ended) == {b"%d" % n for n in range(5)}

    simulate(scenario)
