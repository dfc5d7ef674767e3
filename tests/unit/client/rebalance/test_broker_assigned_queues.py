"""One member has what the broker says: queues under leases, and topics that it pops. And whom it asks for that."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.allocate import AllocateMessageQueueAveragely
from client.lite_pull.consumer import LitePullConsumer
from client.push.consumer import PushConsumer
from client.rebalance.broker_assigned_queues import AssignmentRequests, BrokerAssignedQueues
from model.assignment import MemberAssignment, RequestMode
from model.errors import ConfigError, ConnectFailed
from model.heartbeat import MessageModel
from model.message import MessageExt
from model.quirks import Quirk
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


async def pop(cluster: SimulatedCluster, topic: str = "t") -> None:
    with cluster.simulation.on_host("admin"):
        async with Admin(cluster.addresses) as admin:
            await admin.set_request_mode("g", topic, RequestMode.POP)
    await anyio.sleep(1)


def polled(cluster: SimulatedCluster) -> LitePullConsumer:
    return LitePullConsumer(
        cluster.addresses,
        "g",
        assignment="broker",
        instance_name="lite",
        trace=False,
        clock_ms=cluster.simulation.clock_ms,
    )


def test_a_member_pulls_some_topics_and_pops_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=2)
        consumer = await cluster.start_consumer("g", "t", assignment="broker")
        await consumer.subscribe("u")
        await pop(cluster)
        assert {queue.topic for queue in consumer.queues} == {"u"}
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        await producer.send_many("u", 20, first=20)
        await anyio.sleep(2)
        assert sorted(map(int, consumer.bodies)) == list(range(40))

    simulate(scenario, brokers=1)


def test_what_listeners_have_at_the_shutdown_is_finished_whether_it_was_pulled_or_popped(simulate: Simulate) -> None:
    async def slow(message: MessageExt) -> None:
        await anyio.sleep(3)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=2)
        first = await cluster.start_consumer("g", "t", assignment="broker", work=slow)
        await first.subscribe("u", work=slow)
        await pop(cluster)
        producer = await cluster.start_producer()
        await producer.send_many("t", 4)
        await producer.send_many("u", 4, first=4)
        await anyio.sleep(1)
        await first.stop()
        assert first.consumer.late_results == 0
        second = await cluster.start_consumer("g", "t", assignment="broker")
        await second.subscribe("u")
        await anyio.sleep(70)
        assert sorted(map(int, first.bodies)) == list(range(8))
        assert second.bodies == []

    simulate(scenario, brokers=1)


def test_a_consumer_that_cannot_pop_says_so_and_goes_on_with_the_rest(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        with cluster.simulation.on_host("lite"):
            async with polled(cluster) as consumer:
                await consumer.subscribe("t")
                await anyio.sleep(2)
                assert isinstance(consumer._ownership, BrokerAssignedQueues)
                assert {queue.topic for queue in consumer.queues} >= {"t"}
                await pop(cluster)
                assert "t" not in {queue.topic for queue in consumer.queues}
        assert "group g is set to pop t, and this kind of consumer cannot pop" in caplog.text

    simulate(scenario, brokers=1)


def test_one_that_polls_and_gives_its_last_topic_up_gives_its_queues_to_the_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        staying = await cluster.start_consumer("g", "t", assignment="broker")
        with cluster.simulation.on_host("lite"):
            async with polled(cluster) as consumer:
                await consumer.subscribe("t")
                await anyio.sleep(2)
                assert len(consumer.queues) == 1
                await consumer.unsubscribe("t")
                await anyio.sleep(1)
                assert consumer.queues == []
                assert [queue.topic for queue in staying.queues].count("t") == 2

    simulate(scenario, brokers=1)


def test_one_that_keeps_keys_in_order_keeps_whole_queues_when_it_is_to_pop_and_says_so(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def slow_first(message: MessageExt) -> None:
        await anyio.sleep(0 if int(message.body) else 3)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", assignment="broker", order="key", work=slow_first)
        await anyio.sleep(1)
        assert "order='key'" not in caplog.text
        await pop(cluster)
        assert caplog.text.count("group g is to pop, and order='key' keeps the order of whole queues then") == 1
        producer = await cluster.start_producer()
        for n in range(4):
            await producer.send("t", b"%d" % n, key=f"k{n}")
        await anyio.sleep(5)
        assert [int(body) for body in consumer.bodies] == list(range(4))

    simulate(scenario, brokers=1)


def test_who_decides_is_said_once_and_goes_with_the_other_options() -> None:
    with pytest.raises(ConfigError, match="one or the other"):
        PushConsumer("a:1", "g", assignment="broker", strategy=AllocateMessageQueueAveragely())
    with pytest.raises(ConfigError, match="client, broker"):
        PushConsumer("a:1", "g", assignment="me")
    with pytest.raises(ConfigError, match="CLUSTERING"):
        PushConsumer("a:1", "g", assignment="broker", model=MessageModel.BROADCASTING)
    with pytest.raises(ConfigError, match="mode='pull'"):
        PushConsumer("a:1", "g", assignment="broker", mode="pop")


# --- asking the coordinator -------------------------------------------------------------------------------------------


def requests_of(consumer: SimulatedConsumer) -> AssignmentRequests:
    share = consumer.consumer._ownership
    assert isinstance(share, BrokerAssignedQueues)
    return share.requests


async def member(cluster: SimulatedCluster, **options: Any) -> SimulatedConsumer:
    await cluster.create_topic("t", queues=2)
    consumer = await cluster.start_consumer("g", "t", assignment="broker", **options)
    await anyio.sleep(2)
    return consumer


def test_the_first_broker_by_name_is_asked_and_the_next_one_when_it_does_not_answer(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        requests = requests_of(await member(cluster, host="c", rebalance_interval_s=5))
        assert requests.coordinator == "broker-a:10911"
        cut = cluster.simulation.network.partition("c", "broker-a")
        await anyio.sleep(20)
        assert requests.coordinator == "broker-b:10911"
        cut.heal()
        await anyio.sleep(20)
        assert requests.coordinator == "broker-a:10911"

    simulate(scenario)


def test_an_older_assignment_is_not_acted_on(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster)
        requests = requests_of(consumer)
        newest = requests.assignment
        cluster.brokers["broker-a"].running.broker.assignment.assignments.forget("g")
        requests.assignment = MemberAssignment(version=newest.version + 10_000_000, queues=newest.queues)
        with cluster.simulation.on_host(consumer.host):
            share = await requests.ask(["t"], "")
        assert share is not None
        assert share.version > newest.version + 10_000_000, "whoever shares out counts on from what members know"

    simulate(scenario, brokers=1)


def test_no_one_answers(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster, host="c")
        cluster.simulation.network.partition("c", "broker-a")
        with cluster.simulation.on_host("c"), pytest.raises(ConnectFailed, match="no broker assigns the queues"):
            await requests_of(consumer).ask(["t"], "")
        assert consumer.queues, "it keeps what it has"

    simulate(scenario, brokers=1)


def test_no_one_is_asked_while_no_broker_has_a_topic(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster)
        with cluster.simulation.on_host(consumer.host):
            assert await requests_of(consumer).ask(["nowhere"], "") is None

    simulate(scenario, brokers=1)


def test_a_member_that_was_considered_dead_introduces_itself_and_asks_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster)
        broker = cluster.brokers["broker-a"].running.broker
        leave = broker.groups.table.unregister("g", consumer.client_id, cause="", now=broker.loop.time())
        assert leave is not None
        broker.groups.record_leave(leave, "")
        with cluster.simulation.on_host(consumer.host):
            share = await requests_of(consumer).ask(["t"], "")
        assert share is not None
        assert len([queue for queue in share.queues if queue.topic == "t"]) == 2

    simulate(scenario, brokers=1)


def test_all_ask_the_same_broker_also_if_they_look_at_random_ones_for_members(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = [await member(cluster, quirks=frozenset({Quirk.RANDOM_VIEW})) for _ in range(4)]
        assert {requests_of(consumer).coordinator for consumer in consumers} == {"broker-a:10911"}
        assert len({requests_of(consumer).assignment.version for consumer in consumers}) == 1

    simulate(scenario)
