"""Heartbeats: often enough for the shortest session, true when they arrive, and heeded when they bring news."""

from __future__ import annotations

import logging

import anyio
import pytest

from broker.config import Mastership
from client.instance.heartbeats import HeartbeatRefusals, Refusals
from client.trigger import Trigger
from model.errors import (
    ClientIdConflict,
    ConnectFailed,
    InvalidParameter,
    NoPermission,
    NotAuthenticated,
    RlabError,
    SystemBusy,
)
from model.events import EventKind
from model.message_queue import MessageQueue
from model.replica_limits import SET_SESSION_S
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, FakeProducer, introduce, running_instance

__all__ = ["wire"]


def beats(wire: WireTap, target: str) -> list[float]:
    return [sent.time_s for sent in wire.sent if sent.code.name == "HEART_BEAT" and sent.target == target]


def members(cluster: SimulatedCluster, broker: str, group: str = "g") -> list[str]:
    info = cluster.brokers[broker].running.broker.groups.table.get(group)
    return sorted(info.members) if info is not None else []


def test_every_broker_sees_us_every_thirty_seconds(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember())
            await anyio.sleep(95)
            for broker in cluster.brokers:
                times = beats(wire, broker)
                assert [round(later - earlier) for earlier, later in zip(times[-3:], times[-2:], strict=False)] == [
                    30,
                    30,
                ]

    simulate(scenario)


def bodies(wire: WireTap, target: str) -> list[bool]:
    return [sent.body_bytes > 0 for sent in wire.sent if sent.code.name == "HEART_BEAT" and sent.target == target]


def test_a_heartbeat_that_says_nothing_new_is_its_fingerprint(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember(session_timeout_s=30.0))
            await anyio.sleep(100)
            at = len(bodies(wire, "broker-a"))
            assert at > 10
            assert bodies(wire, "broker-a")[0]
            assert not any(bodies(wire, "broker-a")[2:])
            await introduce(instance, FakeMember("h"))
            await anyio.sleep(25)
            assert bodies(wire, "broker-a")[at:] == [True, False, False], "a new group is news"
            assert members(cluster, "broker-a") == members(cluster, "broker-a", "h") == ["c@1"]
            await anyio.sleep(1000)
            assert not cluster.events_of(EventKind.MEMBER_LEAVE), "a fingerprint keeps a session alive"

    simulate(scenario)


def test_a_broker_that_does_not_know_the_fingerprint_gets_the_whole_heartbeat(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember(session_timeout_s=30.0))
            await anyio.sleep(45)
            groups = cluster.brokers["broker-a"].running.broker.groups
            for number, client in groups.clients.items():
                groups.clients[number] = client._replace(fingerprint=1)
            at = len(bodies(wire, "broker-a"))
            await anyio.sleep(20)
            assert bodies(wire, "broker-a")[at:] == [False, True, False]

    simulate(scenario)


def test_over_a_new_connection_the_heartbeat_is_whole(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember(session_timeout_s=30.0))
            await anyio.sleep(45)
            at = len(bodies(wire, "broker-a"))
            connection = instance.remoting.connected(cluster.brokers["broker-a"].address)
            assert connection is not None
            connection.abort()
            await anyio.sleep(2)
            assert bodies(wire, "broker-a")[at:] == [True]
            assert members(cluster, "broker-a") == ["c@1"]

    simulate(scenario)


def test_a_short_session_is_kept_alive_by_three_heartbeats(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", session_timeout_s=100.0))
            await anyio.sleep(10)
            await introduce(instance, FakeMember("h", session_timeout_s=3.0))
            at = len(beats(wire, "broker-a"))
            await anyio.sleep(10.5)
            assert len(beats(wire, "broker-a")) - at == 10
            await anyio.sleep(30)
            assert not cluster.events_of(EventKind.MEMBER_LEAVE)

    simulate(scenario)


def test_a_set_of_replicas_gets_three_heartbeats_in_five_seconds_and_no_more_of_a_session_is_counted_on(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", session_timeout_s=100.0))
            at = len(beats(wire, "broker-a-1"))
            await anyio.sleep(5.1)
            assert len(beats(wire, "broker-a-1")) - at == 3
            address = cluster.brokers["broker-a"].address
            session = instance.heartbeats.sessions.current("g", address, anyio.current_time())
            assert session is not None
            assert session.ends <= anyio.current_time() + SET_SESSION_S
            with cluster.simulation.network.stall("broker-a-1"):
                await anyio.sleep(SET_SESSION_S)
                assert not session.good(anyio.current_time())

    simulate(scenario, brokers=1, copies=2)


def test_beside_a_set_other_brokers_get_their_usual_heartbeats(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        cluster.masterships["broker-b"] = Mastership(7, 9, 1, 1)
        await cluster.brokers["broker-b"].stop()
        await cluster.brokers["broker-b"].start()
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", session_timeout_s=100.0))
            await anyio.sleep(1)
            counts = [len(beats(wire, name)) for name in ("broker-a", "broker-b")]
            await anyio.sleep(60.2)
            sent = [len(beats(wire, name)) - n for name, n in zip(("broker-a", "broker-b"), counts, strict=True)]
            assert sent == [2, 36]

    simulate(scenario)


def test_a_broker_that_does_not_answer_shortens_no_session_at_the_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember(session_timeout_s=3.0))
            with cluster.simulation.network.stall("broker-b"):
                await anyio.sleep(60)
                assert {event.node for event in cluster.events_of(EventKind.MEMBER_LEAVE)} == {"broker-b"}

    simulate(scenario)


def test_anyone_who_is_refused_sees_it_until_it_is_accepted(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster, "d", client_ip="c") as twin:
            async with running_instance(cluster) as instance:
                await introduce(instance, FakeMember())
                await introduce(twin, FakeMember())
                instance.heartbeats.check_accepted()
                with pytest.raises(ClientIdConflict, match="client id 'c@1' is taken"):
                    twin.heartbeats.check_accepted()
            await anyio.sleep(1)
            assert await twin.heartbeats.send()
            twin.heartbeats.check_accepted()

    simulate(scenario)


def test_with_no_one_to_speak_of_nothing_is_sent(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            assert await instance.heartbeats.send()
            silent = FakeMember()
            silent.present = False
            instance.register(silent)
            assert await instance.heartbeats.send()
            assert beats(wire, "broker-a") == []
            producer = FakeProducer("p")
            instance.register(producer)
            assert await instance.heartbeats.send()
            assert len(beats(wire, "broker-a")) == 1
            instance.unregister(producer)
            await instance.heartbeats.send()
            assert len(beats(wire, "broker-a")) == 1

    simulate(scenario)


def test_who_left_while_we_connected_is_not_listed_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            member = FakeMember()
            instance.register(member)
            instance.register(FakeProducer("p"))  # something is left to be said
            await instance.update_routes(())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(instance.update_routes, ("t",))
                await anyio.sleep(0.0014)  # the route is here, and the connection to the brokers is being made
                assert instance.routes.brokers()
                instance.unregister(member)
            assert members(cluster, "broker-a") == members(cluster, "broker-b") == []

    simulate(scenario)


def test_a_failure_is_reported_and_the_broker_is_tried_again_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            broker = cluster.brokers["broker-b"]
            await broker.crash()
            member = FakeMember()
            instance.register(member)
            assert not await instance.heartbeats.send()
            assert members(cluster, "broker-a") == ["c@1"]
            await anyio.sleep(2)
            await broker.start()
            await anyio.sleep(5)
            assert members(cluster, "broker-b") == ["c@1"], "long before the next heartbeat"

    simulate(scenario)


def test_a_member_that_a_broker_had_taken_out_rebalances_to_get_its_leases_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster, triggers=frozenset({Trigger.RECONNECT})) as instance:
            member = FakeMember()
            await introduce(instance, member)
            await instance.heartbeats.send()
            await anyio.sleep(1)
            assert member.passes == []
            cluster.brokers["broker-a"].running.broker.groups.table.unregister("g", "c@1", cause="", now=0.0)
            await instance.heartbeats.send("why")
            await anyio.sleep(1)
            (due,) = member.passes
            assert due.cause == "why"

    simulate(scenario)


def test_when_the_group_came_to_life_is_the_earliest_that_any_broker_says(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", brokers=["broker-b"])
        async with running_instance(cluster, "d") as earlier:
            await introduce(earlier, FakeMember())
            created_ms = earlier.heartbeats.group_created_ms("g")
            assert 0 < created_ms <= cluster.simulation.clock_ms()
            await anyio.sleep(10)
            await cluster.create_topic("t")
            async with running_instance(cluster) as instance:
                assert instance.heartbeats.group_created_ms("g") == 0
                await introduce(instance, FakeMember())
                assert instance.heartbeats.group_created_ms("g") == created_ms

    simulate(scenario)


def test_leaving_reports_every_broker_that_is_connected_and_waits_for_no_other(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            member = FakeMember()
            await introduce(instance, member)
            cluster.simulation.network.stall("broker-b")
            started_s = cluster.simulation.loop.time()
            await instance.heartbeats.leave("g", "why")
            assert cluster.simulation.loop.time() - started_s <= 1.0
            instance.unregister(member)
            assert members(cluster, "broker-a") == []
            (leave,) = cluster.events_of(EventKind.MEMBER_LEAVE)
            assert (leave.detail, leave.cause) == ("unregister", "why")
            cluster.simulation.network.heal()

    simulate(scenario)


# --- refusals --------------------------------------------------------------------------------------------------------

Q0, Q1 = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
OFF = NoPermission("switched off")


def test_a_group_is_warned_of_once_until_none_of_its_queues_is_refused_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            for queue in (Q0, Q1):
                refusals.add("c", "g", queue, OFF)
        refusals.add("c", "other", Q0, OFF)
        refusals.discard("c", "g", Q0)
        refusals.discard("c", "g", Q0)
        refusals.add("c", "g", Q0, OFF)
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"], "one for each group"
        refusals.discard("c", "g", Q0)
        refusals.discard("c", "g", Q1)
        assert caplog.records[-1].message == "c: group g is no longer refused messages"
        refusals.add("c", "g", Q1, OFF)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO", "WARNING"]
    assert list(refusals.refused) == ["other", "g"]


def test_a_refused_heartbeat_reaches_who_asks_and_is_final_when_it_has_lasted_for_a_session() -> None:
    refusals = HeartbeatRefusals()
    refusals.refused("b:1", InvalidParameter("too many"), 10.0)
    refusals.check(["a:1"])
    with pytest.raises(InvalidParameter, match="broker b:1 refuses this client: too many"):
        refusals.check(["a:1", "b:1"])
    refusals.refused("b:1", InvalidParameter("still too many"), 39.0)
    assert refusals.final("b:1", 39.9, 30.0) is None
    assert str(refusals.final("b:1", 40.0, 30.0)) == "still too many"
    assert refusals.final("a:1", 40.0, 30.0) is None
    refusals.accepted("b:1")
    refusals.check(["b:1"])
    refusals.refused("b:1", ClientIdConflict("taken"), 50.0)
    assert refusals.final("b:1", 79.0, 30.0) is None, "counted anew"


@pytest.mark.parametrize("error", [SystemBusy("x"), ConnectFailed("x"), NotAuthenticated("x")])
def test_what_may_succeed_without_a_change_here_is_not_a_refusal(error: RlabError) -> None:
    refusals = HeartbeatRefusals()
    refusals.refused("b:1", error, 0.0)
    refusals.check(["b:1"])
    assert refusals.final("b:1", 99.0, 30.0) is None


def test_a_missing_right_is_said_to_who_starts_and_ends_no_consumer_that_runs() -> None:
    refusals = HeartbeatRefusals()
    refusals.refused("b:1", NoPermission("no right"), 0.0)
    with pytest.raises(NoPermission):
        refusals.check(["b:1"])
    assert refusals.final("b:1", 99.0, 30.0) is None
