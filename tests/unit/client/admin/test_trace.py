"""An operator reads the trace of a cluster as it grows."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client.admin.admin import Admin
from model.events import EventKind
from model.names import TRACE_TOPIC
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


def test_each_event_is_read_once_from_every_broker_and_no_group_comes_of_it(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        trace = admin.trace()
        await admin.create_topic("t", 2)
        await anyio.sleep(3)
        first = await trace.read()
        assert {event.node for event in first if event.kind == EventKind.BROKER_UP} == {"broker-a", "broker-b"}
        assert await trace.read() == []
        await admin.create_topic("u", 2)
        await anyio.sleep(3)
        second = await trace.read()
        assert {(event.node, event.topic) for event in second} == {("broker-a", "u"), ("broker-b", "u")}
        assert await admin.groups() == ()

    administer(scenario, tmp_path, trace=True)


def test_a_trace_since_a_time_leaves_out_what_was_stored_before(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2)
        await anyio.sleep(3)
        trace = admin.trace(since_ms=cluster.simulation.clock_ms())
        await admin.create_topic("u", 2)
        await anyio.sleep(3)
        assert {event.topic for event in await trace.read()} == {"u"}

    administer(scenario, tmp_path, trace=True)


def test_a_broker_that_does_not_answer_is_read_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await anyio.sleep(3)
        trace = admin.trace()
        await trace.read()
        await cluster.brokers["broker-b"].crash()
        assert [event for event in await trace.read() if event.node == "broker-b"] == []
        await cluster.brokers["broker-b"].start()
        await anyio.sleep(5)
        kinds = [event.kind for event in await trace.read() if event.node == "broker-b"]
        assert kinds.count(EventKind.BROKER_UP) == 1
        assert (await admin.route(TRACE_TOPIC)).subscribe_queues()

    administer(scenario, tmp_path, trace=True)
