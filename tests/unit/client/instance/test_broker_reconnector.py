"""Lost brokers are tried at once and again and again, and found even between two route polls."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import anyio
import pytest

from client.trigger import Trigger
from model.errors import ConnectFailed, NotEnoughReplicas, NotMaster, RequestTimeout
from model.events import EventKind
from model.limits import PULL_RETRY_ERROR_S, RECONNECT_MAX_S, ROUTE_POLL_INTERVAL_S
from model.names import retry_topic
from model.replica_limits import MASTER_CONNECT_S, MASTER_PAUSE_S, OLD_MASTER_CONNECTION_S, OLD_MASTER_QUIET_S
from namesrv.faults import NameServerFaults
from remoting.faults.fault import parse_fault
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.replica_places import following, promote
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, FakeProducer, introduce, running_instance

__all__ = ["wire"]

ONLY_RECONNECT = frozenset({Trigger.RECONNECT})


def members(cluster: SimulatedCluster, broker: str) -> list[str]:
    info = cluster.brokers[broker].running.broker.groups.table.get("g")
    return sorted(info.members) if info is not None else []


def test_a_cut_connection_is_recreated_at_once_and_then_the_groups_look(simulate: Simulate) -> None:
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


def test_a_broker_whose_route_had_no_master_for_a_moment_is_found_before_the_next_poll(simulate: Simulate) -> None:
    """Between two masters of a set, a name server that knows no sets may name a replica only, and notifies nobody."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        hook = NameServerFaults(cluster.name_servers["namesrv-1"].running.server).hook(Random(1))
        hook.begin(parse_fault({"do": "drop", "code": "NOTIFY_ROUTE_CHANGED"}))
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await anyio.sleep(5)
            await cluster.brokers["broker-a"].stop()
            await anyio.sleep(0.1)
            for topic in ("t", retry_topic("g")):
                route = instance.routes.route_of(topic)
                assert route is not None
                replica_only = tuple(replace(each, addresses={2: "host-2:10911"}) for each in route.brokers)
                instance.routes.update(topic, replace(route, brokers=replica_only))
                instance.removal_grace.forget(topic)
            await anyio.sleep(2)
            await cluster.brokers["broker-a"].start()
            await anyio.sleep(ROUTE_POLL_INTERVAL_S / 2)
            assert instance.routes.address_of("broker-a") == "broker-a:10911"
            assert members(cluster, "broker-a") == ["c@1"]

    simulate(scenario)


def test_a_broker_that_no_route_names_for_long_is_abandoned(simulate: Simulate) -> None:
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


# --- the masters of sets ---------------------------------------------------------------------------------------------

PATIENCE_S = 2.5


@pytest.mark.parametrize(("is_set", "waited_s"), [(False, 0.0), (True, PATIENCE_S)])
def test_only_the_master_of_a_set_is_waited_for(simulate: Simulate, is_set: bool, waited_s: float) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        if is_set:
            await cluster.brokers["broker-a"].stop()
            await promote(cluster, "broker-a", "broker-a", 1)
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            instance.register(FakeProducer("p", "t"))
            await instance.update_routes(("t",))
            await cluster.brokers["broker-a"].crash()
            for waits in (False, True):
                began = anyio.current_time()
                with pytest.raises(ConnectFailed):
                    await instance.connect_master("broker-a", PATIENCE_S, waits=waits)
                assert anyio.current_time() - began == pytest.approx(waited_s if waits else 0.0, abs=0.01)

    simulate(scenario, brokers=1)


def test_an_address_that_does_not_answer_is_abandoned_sooner_for_a_set(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.brokers["broker-a"].stop()
        await promote(cluster, "broker-a", "broker-a", 1)
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            cluster.simulation.network.partition("c", list(cluster.brokers))
            for name, timeout_s in (("broker-a", MASTER_CONNECT_S), ("broker-b", PATIENCE_S)):
                began = anyio.current_time()
                with pytest.raises(ConnectFailed, match=f"no answer in {timeout_s:g}"):
                    await instance.connect_master(name, PATIENCE_S)
                assert anyio.current_time() - began == pytest.approx(timeout_s, abs=0.01)

    simulate(scenario)


@pytest.mark.parametrize(("answers", "left_s"), [(False, OLD_MASTER_QUIET_S), (True, OLD_MASTER_CONNECTION_S)])
def test_after_a_move_sessions_end_at_once_and_the_old_connection_a_moment_later(
    simulate: Simulate, answers: bool, left_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.brokers["broker-a"].stop()
        await promote(cluster, "broker-a", "broker-a", 1)
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            session = instance.heartbeats.sessions.current("g", "broker-a:10911", anyio.current_time())
            connection = await instance.connect_master("broker-a", 1.0)
            async with following(cluster, "broker-a", "host-2", master="broker-a:10911", epoch=1):
                instance._masters.refused("broker-a:10911", NotMaster("", "host-2:10911", 2))
                assert session is not None
                assert not session.good(anyio.current_time())
                assert instance.masters == {}
                if answers:
                    answer = connection.request(RequestCode.GET_SERVER_STATE, {}, None, 1.0)
                    answer.add_done_callback(lambda done: done.exception())
                await anyio.sleep(left_s - 0.01)
                assert not connection.closed
                await anyio.sleep(0.02)
                assert connection.closed

    simulate(scenario, brokers=1)


def test_a_replica_that_knows_no_master_is_tried_until_there_is_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.brokers["broker-a"].stop()
        await promote(cluster, "broker-a", "broker-a", 1)
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            member = FakeMember()
            await introduce(instance, member)
            await cluster.brokers["broker-a"].crash()
            async with following(cluster, "broker-a", "broker-a") as asked:
                await anyio.sleep(5)
                assert 3 <= len(asked) <= 20  # heartbeats, ever more rarely
                assert instance.routes.address_of("broker-a") == "broker-a:10911"
            await promote(cluster, "broker-a", "broker-a", 2)
            await anyio.sleep(0.2)  # the notification of its epoch ends the back-off
            assert instance.heartbeats.sessions.current("g", "broker-a:10911", anyio.current_time()) is not None

    simulate(scenario, brokers=1)


def test_a_request_is_worth_waiting_only_at_a_set_and_if_it_certainly_did_nothing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.brokers["broker-a"].stop()
        await promote(cluster, "broker-a", "broker-a", 1)
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            for error in (ConnectFailed(), NotMaster(), NotEnoughReplicas()):
                assert instance.is_worth_waiting("broker-a", error)
                assert not instance.is_worth_waiting("broker-b", error)
            assert not instance.is_worth_waiting("broker-a", RequestTimeout())
            assert [instance.pause_s(name) for name in ("broker-a", "broker-b")] == [PULL_RETRY_ERROR_S] * 2
            for name in ("broker-a", "broker-b"):
                await instance.connect_master(name, 1.0)
            assert [instance.pause_s(name) for name in ("broker-a", "broker-b")] == [MASTER_PAUSE_S, PULL_RETRY_ERROR_S]
            began = anyio.current_time()
            assert await instance.wait_for_master("broker-a", began + 1.0)
            assert anyio.current_time() == pytest.approx(began + MASTER_PAUSE_S)
            assert not await instance.wait_for_master("broker-a", began)

    simulate(scenario)
