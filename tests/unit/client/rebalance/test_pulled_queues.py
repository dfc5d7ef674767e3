"""A queue that begins again elsewhere, and a consumer that finds the end of a queue before its own offset."""

from __future__ import annotations

import anyio

from client.rebalance.leased_queues import LeasedQueues
from model.events import EventKind
from model.limits import OFFSET_PERSIST_INTERVAL_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

QUEUE = MessageQueue("t", "broker-a", 0)


def share_of(consumer: SimulatedConsumer) -> LeasedQueues:
    share = consumer.consumer._ownership
    assert isinstance(share, LeasedQueues)
    return share


async def consumer_of_three(cluster: SimulatedCluster) -> SimulatedConsumer:
    await cluster.create_topic("t", queues=1)
    consumer = await cluster.start_consumer("g", "t")
    producer = await cluster.start_producer()
    await producer.send_many("t", 3)
    await anyio.sleep(1)
    assert consumer.bodies == [b"0", b"1", b"2"]
    return consumer


def test_a_queue_that_is_restarted_is_pulled_from_there_and_its_old_life_counts_no_more(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await consumer_of_three(cluster)
        share = share_of(consumer)
        old = share.owned[QUEUE]
        with cluster.simulation.on_host(consumer.host):
            again = share.restart(old, 1)
        assert share.owned[QUEUE] is again
        assert again.token == old.token
        assert old.detached
        assert old.process_queue.dropped
        await anyio.sleep(1)
        assert consumer.bodies == [b"0", b"1", b"2", b"1", b"2"]

    simulate(scenario, brokers=1)


def test_a_queue_that_ends_before_the_offset_wanted_is_read_and_committed_from_its_end(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await consumer_of_three(cluster)
        with cluster.simulation.on_host(consumer.host):
            share_of(consumer).restart(share_of(consumer).owned[QUEUE], 90)
        await anyio.sleep(6)
        rows = cluster.brokers["broker-a"].running.broker.leases.offsets.of_group("g")
        assert ("t", 0, 3) in rows
        producer = cluster.producers[0]
        await producer.send("t", b"new")
        await anyio.sleep(1)
        assert consumer.bodies[3:] == [b"new"]

    simulate(scenario, brokers=1)


def test_what_takes_the_place_of_lost_messages_waits_until_no_listener_has_them(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with_listener: list[int] = []

        async def slowly(message: MessageExt) -> None:
            with_listener.append(message.offset)
            assert with_listener == [message.offset]
            await anyio.sleep(3)
            with_listener.remove(message.offset)

        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=slowly, order="queue")
        await (await cluster.start_producer()).send_many("t", 2)
        await anyio.sleep(1)
        share = share_of(consumer)
        with cluster.simulation.on_host(consumer.host):
            share._moved(share.owned[QUEUE], 0)
        await anyio.sleep(1)
        assert share.owned[QUEUE].commit_offset == 0
        await anyio.sleep(8)
        assert consumer.bodies == [b"0", b"0", b"1"]

    simulate(scenario, brokers=1)


def test_what_was_handed_out_is_reported_with_each_commit_and_before_the_queue_is_dropped(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await consumer_of_three(cluster)
        await anyio.sleep(OFFSET_PERSIST_INTERVAL_S)
        await (await cluster.start_producer()).send_many("t", 2)
        await anyio.sleep(0.1)
        await consumer.stop()
        of_queue = [event for event in cluster.events if event.topic == "t" and event.node == consumer.client_id]
        reported = [event for event in of_queue if event.kind == EventKind.MESSAGES_HANDED_OUT]
        assert [(event.offset, event.n) for event in reported] == [(3, 3), (5, 2)]
        assert of_queue[-2:] == [reported[-1], cluster.events_of(EventKind.QUEUE_DROPPED, topic="t")[0]]
        [granted] = cluster.events_of(EventKind.LOCK_GRANTED, topic="t")
        assert reported[0].version == granted.version
        lags = [(event.offset, event.n) for event in cluster.events_of(EventKind.OFFSET_COMMITTED, topic="t")]
        assert lags == [(3, 0), (5, 0)]

    simulate(scenario, brokers=1)


def test_a_grant_reports_how_many_messages_wait(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await consumer_of_three(cluster)
        await consumer.stop()
        await (await cluster.start_producer()).send_many("t", 7)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert [event.n for event in cluster.events_of(EventKind.LOCK_GRANTED, topic="t")] == [0, 7]

    simulate(scenario, brokers=1)
