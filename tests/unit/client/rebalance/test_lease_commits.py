"""Offsets of leased queues: committed when they changed, and with a release until the broker has done it."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from broker.groups.faults import make_fault_hook
from model.events import Event, EventKind
from model.limits import OFFSET_PERSIST_INTERVAL_S
from remoting.faults.fault import parse_fault
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.rebalance.test_leased_queues import Q0, Q1, Q3, committed, share_of

__all__ = ["wire"]


def test_a_release_that_its_broker_did_not_receive_is_said_again_until_it_does(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t", host="c1")
        await cluster.wait_converged(1)
        faults: list[Any] = []

        def deaf(event: Event) -> None:
            if event.kind == EventKind.QUEUE_DROPPED and not faults:
                faults.append(cluster.simulation.network.partition("c1", "broker-a", one_way=True))

        cluster.watchers.append(deaf)
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(20)
        assert second.queues == []
        faults[0].heal()
        await cluster.wait_converged(5)
        assert second.queues == [Q1]

    simulate(scenario, brokers=1)


def test_an_offset_that_was_set_back_is_committed_before_its_lease_is_released(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await (await cluster.start_producer()).send_many("t", 10)
        await anyio.sleep(OFFSET_PERSIST_INTERVAL_S + 1)
        share = share_of(consumer)
        share._moved(share.owned[Q0], 7)
        broker = cluster.brokers["broker-a"].running
        hook = make_fault_hook(broker.server, broker.broker.groups, broker.broker.events, Random(1))
        hook.begin(parse_fault({"do": "drop", "code": "UPDATE_CONSUMER_OFFSET", "n": 1}))
        given_up = share.owned.pop(Q0)
        given_up.stop()
        await share._release([given_up], "")
        assert committed(cluster) == 7

    simulate(scenario, brokers=1)


def test_the_log_is_reported_once_of_each_reason_why_a_release_waits(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t", host="c1")
        await cluster.wait_converged(5)
        away: list[Any] = []

        def take_broker_away(event: Event) -> None:
            if event.kind == EventKind.QUEUE_DROPPED and not away:
                away.append(cluster.simulation.network.partition("c1", "broker-b"))
                cluster.simulation.network.cut("c1", "broker-b")

        cluster.watchers.append(take_broker_away)
        await cluster.start_consumer("g", "t", host="c2")
        await anyio.sleep(120)
        assert away
        away[0].heal()

    simulate(scenario, brokers=2)
    reported = [record.getMessage() for record in caplog.records if "release of t@broker-b:1" in record.getMessage()]
    assert 1 <= len(reported) <= 3


def test_offsets_are_committed_when_they_changed_and_again_when_a_commit_failed(
    simulate: Simulate, wire: WireTap
) -> None:
    def commits() -> int:
        return wire.codes("c1").count("UPDATE_CONSUMER_OFFSET")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        await cluster.start_consumer("g", "t", host="c1")
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        await anyio.sleep(20)
        idle = commits()
        await anyio.sleep(20)
        assert commits() == idle, "nothing happened"
        await producer.send("t", b"x", queue=Q0)
        await producer.send("t", b"x", queue=Q3)
        await anyio.sleep(20)
        assert commits() == idle + 2, "one before anything is stored, one that waits for that; for both queues together"
        await producer.send("t", b"y", queue=Q0)
        await anyio.sleep(0.05)
        with cluster.simulation.network.partition("c1", "broker-a", one_way=True):
            await anyio.sleep(9)
            assert committed(cluster) == 1
        await anyio.sleep(10)
        assert committed(cluster) == 2

    simulate(scenario, brokers=1)
