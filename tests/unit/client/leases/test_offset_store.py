"""Offsets that are kept at brokers by a consumer that has no leases."""

from __future__ import annotations

import anyio

from client.leases.offset_store import CommittedOffsetStore
from model.errors import LeaseLost
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

QUEUE, AWAY = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)


def test_offsets_are_committed_read_back_and_unknown_while_their_broker_is_away(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        instance = producer.producer._instance
        assert instance is not None
        store = CommittedOffsetStore(instance, "g")
        with cluster.simulation.on_host(producer.host):
            assert await store.read([QUEUE, AWAY]) == {QUEUE: None, AWAY: None}
            store.update(QUEUE, 3)
            store.update(AWAY, 4)
            await cluster.brokers["broker-b"].crash()
            assert set(await store.persist()) == {AWAY}
            again = CommittedOffsetStore(instance, "g")
            assert await again.read([QUEUE, AWAY]) == {QUEUE: 3}, "not None: it is not known that there is no offset"
            await cluster.brokers["broker-b"].start()
            await anyio.sleep(10)
            assert await store.persist() == {}
            assert await again.read([QUEUE, AWAY]) == {QUEUE: 3, AWAY: 4}
            store.update(QUEUE, 2)
            assert (await store.read([QUEUE]))[QUEUE] == 3
            store.reset(QUEUE, 1)
            assert await store.persist() == {}
            assert (await again.read([QUEUE]))[QUEUE] == 1

    simulate(scenario)


def test_a_queue_that_a_member_of_the_group_has_is_not_committed_from_outside(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        member = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(2)
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(6)
        instance = producer.producer._instance
        assert instance is not None
        store = CommittedOffsetStore(instance, "g")
        with cluster.simulation.on_host(producer.host):
            for change in (store.update, store.reset):
                change(QUEUE, 3)
                assert isinstance((await store.persist())[QUEUE], LeaseLost)
            await member.stop()
            assert await store.persist() == {}

    simulate(scenario, brokers=1)


def test_a_topic_is_new_until_it_has_begun(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await cluster.start_producer()
        assert producer.producer._instance is not None
        store = CommittedOffsetStore(producer.producer._instance, "g")
        assert store.begin("t", 5)
        assert not store.begin("t", 5)
        assert not store.begin("t", 9)
        wanted = store.wanted_topic("t")
        assert wanted is not None
        assert wanted.since_ms == 5
        store.end("t")
        store.end("t")
        assert store.begin("t", 9)

    simulate(scenario, brokers=1)
