"""Who is asked, and what of the answers is acted on."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.rebalance.assignment_requests import AssignmentRequests
from client.rebalance.broker_assigned_queues import BrokerAssignedQueues
from model.assignment import MemberShare
from model.errors import ConnectFailed
from model.quirks import Quirk
from simulation.cluster.clients import SimulatedConsumer
from simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


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
        newest = requests.share
        cluster.brokers["broker-a"].running.broker.assignment.assignments.forget("g")
        requests.share = MemberShare(version=newest.version + 10_000_000, queues=newest.queues)
        with cluster.simulation.on_host(consumer.host):
            share = await requests.ask(["t"], "")
        assert share is not None
        assert share.version > newest.version + 10_000_000, "whoever shares out counts on from what members know"

    simulate(scenario, brokers=1)


def test_nobody_answers(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster, host="c")
        cluster.simulation.network.partition("c", "broker-a")
        with cluster.simulation.on_host("c"), pytest.raises(ConnectFailed, match="no broker assigns the queues"):
            await requests_of(consumer).ask(["t"], "")
        assert consumer.queues, "it keeps what it has"

    simulate(scenario, brokers=1)


def test_nobody_is_asked_while_no_broker_has_a_topic(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster)
        with cluster.simulation.on_host(consumer.host):
            assert await requests_of(consumer).ask(["nowhere"], "") is None

    simulate(scenario, brokers=1)


def test_a_member_that_was_taken_for_dead_introduces_itself_and_asks_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await member(cluster)
        broker = cluster.brokers["broker-a"].running.broker
        leave = broker.groups.table.unregister("g", consumer.client_id, cause="", now=broker.loop.time())
        assert leave is not None
        broker.groups.take_out(leave, "")
        with cluster.simulation.on_host(consumer.host):
            share = await requests_of(consumer).ask(["t"], "")
        assert share is not None
        assert len([queue for queue in share.queues if queue.topic == "t"]) == 2

    simulate(scenario, brokers=1)


def test_all_ask_the_same_broker_also_if_they_look_at_random_ones_for_members(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = [await member(cluster, quirks=frozenset({Quirk.RANDOM_VIEW})) for _ in range(4)]
        assert {requests_of(consumer).coordinator for consumer in consumers} == {"broker-a:10911"}
        assert len({requests_of(consumer).share.version for consumer in consumers}) == 1

    simulate(scenario)
