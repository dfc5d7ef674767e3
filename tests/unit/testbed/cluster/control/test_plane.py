"""The control plane and its HTTP over a simulated cluster: barriers in virtual time, faults, reports, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from client.admin.admin import Admin
from model.errors import InvalidParameter
from model.events import EventKind
from process.orders import Orders
from testbed.cluster.cluster_bed import ClusterBed
from testbed.cluster.control.http import ROUTES, openapi
from testbed.cluster.control.plane import BARRIERS, Plane
from testbed.cluster.control.virtual import orders_of_broker
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate, simulate
from traces.figures.faults import FaultHistory

__all__ = ["simulate"]
pytestmark = pytest.mark.simulation


class SimulatedChild:
    """A broker of a simulated cluster as a test bed has it: it answers orders."""

    def __init__(self, name: str, orders: Orders) -> None:
        self.name = name
        self.process = self
        self._orders = orders

    def send_signal(self, number: int) -> None:
        """Only its bed minds that it is paused."""

    async def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        return self._orders.answer(order)


def bed_of(cluster: SimulatedCluster) -> ClusterBed:
    children: list[Any] = [
        SimulatedChild(name, orders_of_broker(server.running, Random(1))) for name, server in cluster.brokers.items()
    ]
    return ClusterBed([], children, {})


def test_barriers_answer_when_it_is_so_and_at_the_time_limit_say_what_is_missing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options["trace"] = True  # passes are told by the clients themselves
        await cluster.create_topic("orders", queues=2)
        with cluster.simulation.on_host("control"):
            async with Admin(cluster.addresses) as admin:
                plane = Plane(bed_of(cluster), admin, cluster.addresses[0])
                none = await plane.wait("g", "stable", {"timeout_s": "0.2"})
                assert (none["ok"], len(none["missing"]), none["took_s"] >= 0.2) == (False, 1, True)
                for name in ("c1", "c2"):
                    await cluster.start_consumer("g", "orders", instance_name=name)
                assert (await plane.wait("g", "stable", {"members": "2"}))["ok"]
                assert (await plane.wait("g", "owns", {"client": "c2", "queues": "2"}))["ok"]
                producer = await cluster.start_producer()
                await producer.send_many("orders", 20)
                assert (await plane.wait("g", "consumed", {}))["ok"]
                assert (await plane.group("g"))["lag"] == 0
                began = await plane.begin_fault({"do": "refuse", "client": "c2"})
                assert began["done"] == 2, "one connection at each broker"
                assert (await plane.wait("g", "gone", {"client": "c2", "timeout_s": "60"}))["ok"]
                [active] = (await plane.faults())["active"]
                assert (active["id"], active["at"]) == (began["id"], ["broker-a", "broker-b"])
                assert (await plane.heal())["healed"] == 1
                assert (await plane.faults())["active"] == []
                assert (await plane.wait("g", "stable", {"members": "2", "timeout_s": "60"}))["ok"]
                since_ms = str(cluster.simulation.clock_ms())
                assert (await plane.wait("g", "passes", {"n": "1", "timeout_s": "60", "since_ms": since_ms}))["ok"]
                report = await plane.report("g")
                assert "MEMBER_LEAVE" in [each["kind"] for each in report["rebalances"]]
                with pytest.raises(InvalidParameter, match=", ".join(BARRIERS)):
                    await plane.wait("g", "soon", {})
                with pytest.raises(InvalidParameter, match="needs client"):
                    await plane.wait("g", "owns", {})
                with pytest.raises(InvalidParameter, match="timeout_s must be"):
                    await plane.wait("g", "stable", {"timeout_s": "soon"})
        causes = {event.cause for event in cluster.events_of(EventKind.FAULT_BEGAN)}
        assert causes == {began["cause"]}, "both brokers began one fault"

    simulate(scenario, brokers=2, trace=True)


def test_what_a_paused_broker_cannot_heal_is_healed_with_its_pause_and_reported_by_its_cause(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with cluster.simulation.on_host("control"):
            async with Admin(cluster.addresses) as admin:
                plane = Plane(bed_of(cluster), admin, cluster.addresses[0])
                number = (await plane.begin_fault({"do": "delay", "by_s": 1}))["id"]
                await plane.act("broker-b", "pause")
                assert (await plane.heal(number))["healed"] == 1, "at the other broker"
                await plane.act("broker-b", "resume")
                [left] = (await plane.faults())["active"]
                assert (left["id"], left["at"]) == (number, ["broker-b"])
                await plane.act("broker-b", "pause")
                assert (await plane.heal())["healed"] == 2, "the pause and what was left"
                assert (await plane.faults())["active"] == []
        faults = FaultHistory()
        for event in cluster.events:
            faults.feed(event)
        assert [(row.fault, row.at, row.over_ms is None) for row in faults.rows] == [
            ("delay by_s=1", ("broker-a", "broker-b"), False),
            ("pause broker-b", ("broker-b",), False),
            ("pause broker-b", ("broker-b",), False),
        ]

    simulate(scenario, brokers=2, trace=True)


def test_an_order_that_makes_no_sense_is_refused_and_one_about_a_process_is_reported_in_the_trace(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        orders = orders_of_broker(cluster.brokers["broker-a"].running, Random(1))
        for order in ({"do": "explode"}, {"do": "begin", "fault": {"do": "explode"}}):
            with pytest.raises(InvalidParameter, match="explode"):
                orders.answer(order)
        reported = orders.answer({"do": "tell", "kind": "FAULT_BEGAN", "process": "broker-b", "done": "kill"})
        [event] = cluster.events_of(EventKind.FAULT_BEGAN)
        assert (event.id, event.broker, event.detail) == (reported["cause"], "broker-b", "kill broker-b")

    simulate(scenario, brokers=1)


@pytest.mark.walk
def test_the_openapi_page_has_each_route_with_its_parameters() -> None:
    document = openapi("1.2.3")
    assert document["info"]["version"] == "1.2.3"
    assert sum(len(methods) for methods in document["paths"].values()) == len(ROUTES)
    wait = document["paths"]["/v1/groups/{group}/wait/{barrier}"]["get"]
    assert [each["name"] for each in wait["parameters"] if each["in"] == "path"] == ["group", "barrier"]
