"""What users of the reference saw of its clients: each of their quirks, switched on and switched off."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from model.events import EventKind
from model.names import is_retry_topic
from model.quirks import Quirk
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_lifecycle import finished
from tests.simulation.wire import WireTap, wire

pytestmark = pytest.mark.simulation

__all__ = ["wire"]


def quirk_or_none(quirk: Quirk) -> Sequence[frozenset[Quirk]]:
    return frozenset(), frozenset({quirk})


@pytest.mark.parametrize("quirks", quirk_or_none(Quirk.RANDOM_VIEW))
def test_under_the_quirk_members_that_ask_different_brokers_have_different_views(
    simulate: Simulate, quirks: frozenset[Quirk]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        cluster.client_options |= {"session_timeout_s": 3.0, "rebalance_interval_s": 2.0, "quirks": quirks}
        first = await cluster.start_consumer("g", "t")
        second = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(3)
        with cluster.simulation.network.partition(second.host, "broker-b"):
            await anyio.sleep(10)  # broker-b has forgotten the second member, broker-a knows both
            moved = 0
            for _ in range(60):
                before = set(first.queues)
                await anyio.sleep(1)
                moved += len(before.symmetric_difference(first.queues))
        if quirks:
            assert moved > 10, "whether the first member is alone depends on whom it asks"
        else:
            assert moved == 0

    simulate(scenario)


def test_what_a_member_has_of_a_broker_that_it_alone_cannot_reach_is_read_by_no_one_until_the_path_is_back(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        cluster.client_options |= {"session_timeout_s": 3.0}
        first = await cluster.start_consumer("g", "t")
        second = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(3)
        share = [queue for queue in second.queues if queue.broker_name == "broker-b"]
        with cluster.simulation.network.partition(second.host, "broker-b"):
            await anyio.sleep(60)
            leases = cluster.brokers["broker-b"].running.broker.leases.table
            assert not leases.held_by("g", second.client_id)
            assert not set(share) & set(first.queues)
        await cluster.wait_converged(40)
        assert share, "that is what was told"
        assert share == [queue for queue in second.queues if queue.broker_name == "broker-b"]

    simulate(scenario)


@pytest.mark.parametrize("quirks", quirk_or_none(Quirk.UNSUBSCRIBE_STRANDS))
def test_under_the_quirk_the_share_of_a_member_that_unsubscribes_is_read_by_no_one(
    simulate: Simulate, wire: WireTap, quirks: frozenset[Quirk]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=2)
        cluster.client_options |= {"quirks": quirks}
        first = await cluster.start_consumer("g", "t", host="first")
        second = await cluster.start_consumer("g", "t")
        await first.subscribe("u")
        await cluster.wait_converged(1)
        await anyio.sleep(2)
        at_s = cluster.simulation.loop.time()
        await first.unsubscribe("t")
        await anyio.sleep(1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 8)
        await anyio.sleep(1)
        reported = "HEART_BEAT" in wire.codes("first", since_s=at_s)
        if quirks:
            assert not reported
            assert len(second.queues) == 2
            assert len(finished(cluster)) < 8
            await anyio.sleep(60)  # its next heartbeat no longer names the topic
        else:
            assert reported
        assert len(second.queues) == 4
        assert len(finished(cluster)) == 8
        assert {queue.topic for queue in first.queues} == {"u"}

    simulate(scenario, brokers=2)


def test_an_unsubscribe_is_seen_at_once_also_while_no_name_server_answers(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=2)
        first, second = [await cluster.start_consumer("g", "t") for _ in range(2)]
        await first.subscribe("u")
        await cluster.wait_converged(5)
        for server in cluster.name_servers.values():
            await server.crash()
        await first.unsubscribe("t")
        await anyio.sleep(3)
        assert sum(queue.topic == "t" for queue in second.queues) == 4

    simulate(scenario, brokers=2)


def test_what_an_unsubscribe_gives_up_is_committed_and_released_at_once(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", host="c")
        await cluster.wait_converged(1)
        await (await cluster.start_producer()).send_many("t", 7)
        await anyio.sleep(0.1)
        at, at_s = len(cluster.events), cluster.simulation.loop.time()
        await consumer.unsubscribe("t")
        await anyio.sleep(0.1)
        codes = ["HEART_BEAT", "GET_CONSUMER_LIST_BY_GROUP", "UNLOCK_BATCH_MQ"]
        assert [code for code in dict.fromkeys(wire.codes("c", since_s=at_s)) if code in codes] == codes
        (committed,) = cluster.events_of(EventKind.OFFSET_COMMITTED, at, topic="t")
        (released,) = cluster.events_of(EventKind.QUEUE_RELEASED, at, topic="t")
        assert (committed.offset, released.detail) == (7, "unlock")

    simulate(scenario, brokers=1)


def test_a_member_that_gave_a_topic_up_is_handed_nothing_of_it_that_its_tags_had_kept_away(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        cluster.client_options |= {"quirks": frozenset({Quirk.UNSUBSCRIBE_STRANDS})}  # so that it keeps the queue
        consumer = await cluster.start_consumer("g", "t", expression="red")
        await anyio.sleep(2)
        producer = await cluster.start_producer()
        await consumer.unsubscribe("t")
        await producer.send("t", b"blue", tags="blue")
        await producer.send("t", b"red", tags="red")
        await anyio.sleep(5)
        assert [queue for queue in consumer.queues if not is_retry_topic(queue.topic)]
        assert consumer.bodies == []
        await consumer.subscribe("t", "red")
        await anyio.sleep(5)
        assert consumer.bodies == [b"red"]

    simulate(scenario, brokers=1)
