"""Lost brokers are tried at once and again and again, and found even between two route polls."""

from __future__ import annotations

import anyio
import pytest

from client.trigger import Trigger
from model.events import EventKind
from model.limits import RECONNECT_MAX_S, ROUTE_POLL_INTERVAL_S
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, introduce, running_instance

__all__ = ["wire"]

ONLY_RECONNECT = frozenset({Trigger.RECONNECT})


def members(cluster: SimulatedCluster, broker: str) -> list[str]:
    info = cluster.brokers[broker].running.broker.groups.table.get("g")
    return sorted(info.members) if info is not None else []


def test_a_cut_connection_is_made_again_at_once_and_then_the_groups_look(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster, triggers=ONLY_RECONNECT) as instance:
            member = FakeMember()
            await introduce(instance, member)
            await anyio.sleep(5)
            cluster.simulation.network.cut("c", "broker-a")
            await anyio.sleep(0.2)
            assert members(cluster, "broker-a") == ["c@1"]
            (down,) = cluster.events_of(EventKind.BROKER_DOWN)
            (up,) = cluster.events_of(EventKind.BROKER_UP, client="c@1")
            assert (down.detail, up.detail, up.cause) == ("broker-a:10911", "broker-a:10911", f"c@1/{down.seq}")
            assert {due.cause for due in member.passes} == {up.cause}

    simulate(scenario)


def test_a_broker_that_stays_away_is_tried_ever_more_slowly(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            refused = cluster.simulation.network.statistics().connections_refused
            # The name server does not notice: it is cut off from the broker, and waits for its expiry.
            cluster.simulation.network.partition("namesrv-1", "broker-a")
            cluster.simulation.network.refuse("broker-a", 10911)
            cluster.simulation.network.cut("c", "broker-a")
            await anyio.sleep(100)
            tried = cluster.simulation.network.statistics().connections_refused - refused
            assert 100 / RECONNECT_MAX_S <= tried <= 100 / RECONNECT_MAX_S * 2 + 12
            cluster.simulation.network.heal()
            await anyio.sleep(RECONNECT_MAX_S + 0.1)
            assert members(cluster, "broker-a") == ["c@1"]

    simulate(scenario)


def test_a_connection_that_is_lost_again_before_the_heartbeat_is_answered_is_tried_again(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", brokers=["broker-a"])
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await anyio.sleep(5)
            for _ in range(5):
                sent = len(wire.sent)
                cluster.simulation.network.cut("c", "broker-a")
                # The wire offers no event to wait for.
                while not any(each.code.name == "HEART_BEAT" for each in wire.sent[sent:]):  # noqa: ASYNC110
                    await anyio.sleep(0.000_1)
            assert members(cluster, "broker-a") == []
            cluster.simulation.network.cut("c", "broker-a")
            await anyio.sleep(RECONNECT_MAX_S)
            assert members(cluster, "broker-a") == ["c@1"]

    simulate(scenario)


@pytest.mark.parametrize("down_s", [0.5, 20.0])
def test_a_broker_that_was_in_no_route_for_a_moment_is_found_before_the_next_poll(
    simulate: Simulate, down_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await anyio.sleep(5)
            await cluster.brokers["broker-a"].stop()
            await instance.poll_routes()
            await instance.poll_routes()
            assert instance.routes.publish_queues("t")[0].broker_name != "broker-a"
            await anyio.sleep(down_s)
            await cluster.brokers["broker-a"].start()
            await anyio.sleep(RECONNECT_MAX_S + 0.1)
            assert instance.routes.address_of("broker-a") == "broker-a:10911"
            assert members(cluster, "broker-a") == ["c@1"]
            assert cluster.events_of(EventKind.BROKER_UP, client="c@1")

    simulate(scenario)


def test_a_broker_that_no_route_names_for_long_is_given_up(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await cluster.brokers["broker-a"].stop()
            await anyio.sleep(ROUTE_POLL_INTERVAL_S + 2 * RECONNECT_MAX_S)
            refused = cluster.simulation.network.statistics().connections_refused
            await anyio.sleep(100)
            assert cluster.simulation.network.statistics().connections_refused == refused
            assert not cluster.events_of(EventKind.BROKER_UP, client="c@1")

    simulate(scenario)


def test_a_broker_is_tried_by_one_task_however_often_it_is_missed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await cluster.brokers["broker-a"].crash()
            for _ in range(10):
                await instance.heartbeats.send()
            assert len(cluster.events_of(EventKind.BROKER_DOWN, client="c@1")) == 1

    simulate(scenario)


def test_an_instance_that_stops_while_its_connections_are_lost_stops_quietly(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        for turns in range(12):
            async with running_instance(cluster, instance_name=str(turns)) as instance:
                await introduce(instance, FakeMember())
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(instance.stop)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    cluster.simulation.network.cut("c")

    simulate(scenario)  # an error in a callback of the loop would come out here
