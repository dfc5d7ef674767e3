"""Changed routes are asked for when a name server notifies of them, once for many notifications."""

from __future__ import annotations

from random import Random

import anyio

from client.trigger import Trigger
from model.replica_limits import ROUTE_NOTICE_SPREAD_S, ROUTE_NOTICE_WINDOW_S
from namesrv.faults import NameServerFaults
from remoting.command import ONE_WAY, Command
from remoting.faults.fault import parse_fault
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, introduce, running_instance

__all__ = ["wire"]

SEEN_S = ROUTE_NOTICE_WINDOW_S + ROUTE_NOTICE_SPREAD_S + 0.02


def test_a_change_of_a_topic_in_use_is_seen_soon_and_one_of_another_topic_costs_nothing(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        async with running_instance(cluster) as instance:
            member = FakeMember()
            await introduce(instance, member)
            await anyio.sleep(5)
            sent = len(wire.sent)
            await cluster.create_topic("other")
            await anyio.sleep(2)
            assert [each for each in wire.sent[sent:] if each.target == "namesrv-1" and each.source == "c"] == []
            await cluster.create_topic("t", queues=2)
            await anyio.sleep(SEEN_S)
            assert len(instance.routes.subscribe_queues("t")) == 4
            assert (Trigger.ROUTE,) in [due.triggers for due in member.passes]

    simulate(scenario)


def test_a_topic_that_is_created_after_a_client_has_asked_for_it_is_found_soon(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with running_instance(cluster) as instance:
            await anyio.sleep(6)  # the name server answers now that it does not exist
            await introduce(instance, FakeMember("g", "late"))
            await cluster.create_topic("late", queues=1)
            await anyio.sleep(SEEN_S)
            assert len(instance.routes.subscribe_queues("late")) == 2

    simulate(scenario)


def test_many_notifications_at_once_are_one_question_and_one_without_topics_is_about_all(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in ("t", "u"):
            await cluster.create_topic(topic, queues=1)
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t", "u"))
            await anyio.sleep(5)
            handler = instance.handlers()[RequestCode.NOTIFY_ROUTE_CHANGED]

            async def asked(*notified: list[str] | None) -> int:
                sent = len(wire.sent)
                for topics in notified:
                    header = {} if topics is None else {"topics": topics}
                    handler("namesrv-1:9876", Command(ONE_WAY, RequestCode.NOTIFY_ROUTE_CHANGED, 0, header, None))
                await anyio.sleep(2 * ROUTE_NOTICE_SPREAD_S)
                return sum(each.target == "namesrv-1" and each.source == "c" for each in wire.sent[sent:])

            assert await asked(*[["t", "not in use"]] * 100) == 1
            assert await asked(["t"], ["u"], ["t"]) == 2
            assert await asked(["not in use"]) == 0
            assert await asked(["t"], None, ["u"]) == 1  # whether any has changed since the last poll

    simulate(scenario)


def test_a_lost_notification_is_healed_by_the_polls(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        hook = NameServerFaults(cluster.name_servers["namesrv-1"].running.server).hook(Random(1))
        hook.begin(parse_fault({"do": "drop", "code": "NOTIFY_ROUTE_CHANGED"}))
        async with running_instance(cluster, route_poll_interval_s=10.0) as instance:
            await introduce(instance, FakeMember())
            await anyio.sleep(5)
            await cluster.create_topic("t", queues=2)
            await anyio.sleep(SEEN_S)
            assert len(instance.routes.subscribe_queues("t")) == 2
            await anyio.sleep(10)
            assert len(instance.routes.subscribe_queues("t")) == 4

    simulate(scenario)


def test_a_notification_from_a_name_server_that_goes_away_ends_nothing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await anyio.sleep(5)
            await cluster.name_servers["namesrv-1"].crash()
            notice = Command(ONE_WAY, RequestCode.NOTIFY_ROUTE_CHANGED, 0, {"topics": ["t"]}, None)
            instance.handlers()[RequestCode.NOTIFY_ROUTE_CHANGED]("namesrv-1:9876", notice)
            await anyio.sleep(1)
            await cluster.name_servers["namesrv-1"].start()
            await anyio.sleep(6)
            await instance.update_routes(("t",))
            assert instance.background.running

    simulate(scenario)
