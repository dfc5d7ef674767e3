"""A client instance: what it wakes and when, what it keeps fresh, and what it leaves behind."""

from __future__ import annotations

import json
from random import Random

import anyio
import pytest

from client.config import ClientConfig
from client.instance.instance import ClientInstance
from client.instance.schedule import RebalancePass
from client.trigger import Trigger
from model.errors import ConfigError, ConnectFailed, IllegalOperation
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.limits import (
    ABSENT_BROKER_KEPT_S,
    OFFSET_PERSIST_INTERVAL_S,
    REBALANCE_INTERVAL_S,
    ROUTE_POLL_INTERVAL_S,
    TRACE_FLUSH_INTERVAL_S,
)
from model.names import TRACE_TOPIC
from namesrv.faults import NameServerFaults
from remoting.faults.fault import parse_fault
from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from testbed.simulation.cluster.cluster import BROKER_PORT, SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, FakeProducer, introduce, running_instance

__all__ = ["wire"]

AT_ONCE_S = 0.1
"""Some round trips of the simulated network, which take 1 ms each."""


def triggers(passes: list[RebalancePass]) -> list[Trigger]:
    return [trigger for each in passes for trigger in each.triggers]


async def settled(instance: ClientInstance, member: FakeMember) -> None:
    """Introduce a member, and wait until what that sets off is over; then forget it."""
    await introduce(instance, member)
    await anyio.sleep(2)  # the first poll has found its retry topic
    member.passes.clear()


@pytest.mark.walk
def test_every_request_that_is_pushed_has_a_handler_and_no_other(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        handlers = ClientInstance(ClientConfig(name_servers=cluster.addresses, trace=False)).handlers()
        assert set(handlers) == {code for code, schema in SCHEMA.items() if schema.sender.endswith(", one-way")}

    simulate(scenario, brokers=0)


# -------------------------------------------------------------------------------------------------------- start, stop


def test_an_instance_that_cannot_start_says_why_and_leaves_no_connection(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = cluster.brokers["broker-a"].address
        for address, error, text in (
            (broker, ConfigError, "is broker 'broker-a', not a name server"),
            ("nobody:1", ConnectFailed, "no name server answers"),
        ):
            instance = ClientInstance(ClientConfig(name_servers=address, trace=False))
            with cluster.simulation.on_host("c"), pytest.raises(error, match=text):
                await instance.start()
            await anyio.sleep(AT_ONCE_S)
            assert cluster.simulation.network.connections("c") == ()

    simulate(scenario, brokers=1)


def test_two_instances_of_one_host_without_a_name_have_different_ids(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        ids = []
        for seed in (1, 2):
            config = ClientConfig(name_servers=cluster.addresses, rng=Random(seed), trace=False)
            with cluster.simulation.on_host("c"):
                instance = ClientInstance(config)
                await instance.start()
                ids.append(instance.client_id)
                await instance.stop()
        assert [client_id.partition("@")[0] for client_id in ids] == ["c", "c"]
        assert len(set(ids)) == 2

    simulate(scenario, brokers=0)


def test_each_life_of_a_client_id_has_causes_of_its_own(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        ids: list[str] = []
        for seed in range(3):
            config = ClientConfig(
                name_servers=cluster.addresses,
                instance_name="fixed",
                rng=Random(seed),
                event_sink=cluster.events.append,
            )
            with cluster.simulation.on_host("c"):
                instance = ClientInstance(config)
                await instance.start()
                ids += [instance.events.emit(EventKind.CLIENT_START), instance.events.emit(EventKind.CLIENT_STOP)]
                await instance.stop()
        assert [cause.partition("/")[0] for cause in ids] == ["c@fixed"] * 6
        assert len(set(ids)) == 6
        assert all(event.seq < 2**53 for event in cluster.events)

    simulate(scenario, brokers=0)


def test_a_stop_ends_every_task_and_may_be_repeated(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            member = FakeMember()
            await settled(instance, member)
            await instance.stop()
            await instance.stop()
            wire.sent.clear()
            persisted = member.persisted
            await anyio.sleep(120)
            assert (wire.codes("c"), member.passes, member.persisted) == ([], [], persisted)
            assert cluster.simulation.network.connections("c") == ()

    simulate(scenario)


# ------------------------------------------------------------------------------------------------------------- passes


def test_one_who_left_has_no_more_passes_and_one_of_its_name_may_follow(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            first, second = FakeMember(), FakeMember()
            await settled(instance, first)
            with pytest.raises(IllegalOperation, match="has a consumer of group 'g' already"):
                instance.register(second)
            instance.unregister(second)  # was never there, so the first one stays
            instance.wake("g", Trigger.LOCK)
            await anyio.sleep(AT_ONCE_S)
            assert len(first.passes) == 1
            instance.unregister(first)
            await introduce(instance, second)
            await anyio.sleep(REBALANCE_INTERVAL_S)
            assert len(first.passes) == 1
            assert second.passes

    simulate(scenario)


def test_a_notification_of_what_is_known_already_sets_off_nothing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            member = FakeMember()
            await settled(instance, member)
            fetched = await instance.views.fetch("g", ["t"])
            assert fetched is not None
            known = fetched.view.version
            (client,) = cluster.brokers["broker-a"].running.broker.groups.clients.values()
            for version, detail in ((known - 1, "known"), (known, "known"), (known + 1, ""), (-1, "")):
                header = {"group": "g", "version": version, "cause": f"root/{version}"}
                client.connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
                await anyio.sleep(AT_ONCE_S)
                assert cluster.events_of(EventKind.NOTIFY_RECEIVED)[-1].detail == detail
            expected = [RebalancePass("g", (Trigger.NOTIFY,), f"root/{version}") for version in (known + 1, -1)]
            assert member.passes == expected, "-1 is from a broker that counts nothing"

    simulate(scenario)


# ------------------------------------------------------------------------------------------------------------- routes


def test_a_changed_route_wakes_the_groups_that_read_the_topic_and_no_other(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=2)
        async with running_instance(cluster) as instance:
            of_t, of_u = FakeMember("gt", "t"), FakeMember("gu", "u")
            for member in (of_t, of_u):
                await settled(instance, member)
            of_t.passes.clear()
            hook = NameServerFaults(cluster.name_servers["namesrv-1"].running.server).hook(Random(1))
            hook.begin(parse_fault({"do": "drop", "code": "NOTIFY_ROUTE_CHANGED"}))
            await cluster.create_topic("t", queues=3)
            await instance.update_routes(("t", "u"), "root/1")
            await instance.update_routes(("t", "u"), "root/2")
            await anyio.sleep(AT_ONCE_S)
            assert of_t.passes == [RebalancePass("gt", (Trigger.ROUTE,), "root/1")]
            assert of_u.passes == []

    simulate(scenario)


def test_a_new_broker_knows_us_before_a_group_is_woken_to_use_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        async with running_instance(cluster) as instance:
            member = FakeMember()
            await settled(instance, member)
            known: list[bool] = []

            def looks() -> None:
                group = cluster.brokers["broker-b"].running.broker.groups.table.get("g")
                known.append(group is not None and "c@1" in group.members)

            member.on_pass = looks
            await cluster.add_broker("broker-b")
            await cluster.create_topic("t", queues=2)
            await instance.poll_routes()
            await anyio.sleep(AT_ONCE_S)
            assert Trigger.ROUTE in triggers(member.passes)
            assert known
            assert all(known)

    simulate(scenario, brokers=1)


def test_a_topic_that_is_gone_is_believed_to_be_gone_after_its_time_whatever_the_looks(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            server = cluster.name_servers["namesrv-1"]
            await server.crash()
            with pytest.raises(ConnectFailed):
                await instance.update_routes(("t",))
            with cluster.simulation.network.partition("namesrv-1", list(cluster.brokers)):
                await server.start()
                await anyio.sleep(1)
                await instance.update_routes(("t",))
                await instance.update_routes(("t",))
                assert len(instance.routes.subscribe_queues("t")) == 8
                await anyio.sleep(ABSENT_BROKER_KEPT_S)
                await instance.update_routes(("t",))
                assert instance.routes.subscribe_queues("t") == ()

    simulate(scenario)


def test_what_is_sent_to_is_polled_like_what_is_read(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("sent", queues=1)
        async with running_instance(cluster) as instance:
            instance.register(FakeProducer("p", "sent"))
            await anyio.sleep(2)
            await cluster.create_topic("sent", queues=2)
            await anyio.sleep(ROUTE_POLL_INTERVAL_S)
            assert len(instance.routes.publish_queues("sent")) == 4

    simulate(scenario)


def test_the_route_of_a_topic_goes_with_the_last_client_that_uses_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.create_topic("sent", queues=1)
        async with running_instance(cluster) as instance:
            member, producer = FakeMember(), FakeProducer("p", "sent", "t")
            await settled(instance, member)
            instance.register(producer)
            await instance.poll_routes()
            instance.unregister(producer)
            assert (instance.routes.publish_queues("sent"), len(instance.routes.publish_queues("t"))) == ((), 2)
            instance.unregister(member)
            assert instance.routes.publish_queues("t") == ()

    simulate(scenario)


# -------------------------------------------------------------------------------------------- connections and brokers


def test_a_connection_to_a_master_is_kept_until_it_is_lost(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            first = await instance.connect_master("broker-a", 1.0)
            assert await instance.connect_master("broker-a", 1.0) is first
            assert instance.masters == {"broker-a": first}
            cluster.simulation.network.cut("c", "broker-a")
            await anyio.sleep(AT_ONCE_S)
            assert instance.masters == {}
            assert await instance.connect_master("broker-a", 1.0) is not first
            with pytest.raises(ConnectFailed, match="'broker-x' has no master now; nothing was sent"):
                await instance.connect_master("broker-x", 1.0)

    simulate(scenario)


def test_a_producer_group_is_notified_to_brokers_as_long_as_one_producer_of_it_is_here(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))

            async def reported() -> list[tuple[str, ...]]:
                await instance.heartbeats.send()
                clients = cluster.brokers["broker-a"].running.broker.groups.clients.values()
                return [client.producer_groups for client in clients if client.connection.peer.startswith("c:")]

            first, second, other = FakeProducer("p"), FakeProducer("p"), FakeProducer("q")
            for producer in (first, second, other):
                instance.register(producer)
            assert await reported() == [("p", "q")]
            instance.unregister(second)
            assert await reported() == [("p", "q")]
            instance.unregister(first)
            assert await reported() == [("q",)]

    simulate(scenario)


# ------------------------------------------------------------------------------------------------- offsets and traces


def test_offsets_of_every_consumer_are_committed_at_the_interval(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with running_instance(cluster) as instance:
            members = [FakeMember("g"), FakeMember("h")]
            for member in members:
                instance.register(member)
            await anyio.sleep(3.5 * OFFSET_PERSIST_INTERVAL_S)
            assert [member.persisted for member in members] == [3, 3]

    simulate(scenario)


def test_events_are_kept_until_a_broker_takes_them(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = cluster.brokers["broker-a"]
        await broker.stop()
        await anyio.sleep(1)
        async with running_instance(cluster, trace=True, route_poll_interval_s=2.0) as instance:
            noted = [instance.events.emit(EventKind.CLIENT_START, detail="no route yet")]
            await anyio.sleep(5 * TRACE_FLUSH_INTERVAL_S)
            await broker.start()
            await anyio.sleep(10)
            with cluster.simulation.network.refuse("broker-a", BROKER_PORT):
                cluster.simulation.network.cut("c", "broker-a")
                noted.append(instance.events.emit(EventKind.CLIENT_START, detail="a route and nobody there"))
                await anyio.sleep(10)
            await anyio.sleep(10)
            reader = await cluster.start_consumer("reader", TRACE_TOPIC, consume_from=ConsumeFrom.FIRST_OFFSET)
            await anyio.sleep(1)
            sent = [json.loads(line) for body in reader.bodies for line in body.splitlines()]
            assert {f"{event['node']}/{event['seq']}" for event in sent} >= set(noted)

    simulate(scenario, brokers=1)


def test_what_a_client_of_a_short_life_did_is_in_the_trace(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with running_instance(cluster, trace=True) as instance:
            noted = instance.events.emit(EventKind.CLIENT_START)
        reader = await cluster.start_consumer("reader", TRACE_TOPIC, consume_from=ConsumeFrom.FIRST_OFFSET)
        await anyio.sleep(1)
        assert noted in {json.loads(line)["cause"] for body in reader.bodies for line in body.splitlines()}

    simulate(scenario, brokers=1)
