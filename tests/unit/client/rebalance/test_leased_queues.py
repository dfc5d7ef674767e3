"""How one member gets its queues, gives them up and loses them, and that no queue is left lying between two members."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from broker.groups.faults import make_fault_hook
from client.rebalance.leased_queues import LeasedQueues
from model.events import Event, EventKind
from model.limits import OFFSET_PERSIST_INTERVAL_S, REQUEST_TIMEOUT_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from remoting.faults.fault import parse_fault
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

__all__ = ["wire"]

Q0, Q1, Q2, Q3 = (MessageQueue("t", "broker-a", n) for n in range(4))


def share_of(consumer: SimulatedConsumer) -> LeasedQueues:
    share = consumer.consumer._ownership
    assert isinstance(share, LeasedQueues)
    return share


def committed(cluster: SimulatedCluster, queue: MessageQueue = Q0) -> int:
    rows = cluster.brokers["broker-a"].running.broker.leases.offsets.of_group("g")
    return {(topic, queue_id): offset for topic, queue_id, offset in rows}[queue.topic, queue.queue_id]


async def slow_on_queue_three(message: MessageExt) -> None:
    if message.queue.queue_id == 3:
        await anyio.sleep(4)


async def busy_on_queue_three(cluster: SimulatedCluster) -> SimulatedConsumer:
    """A member with four queues, whose listener has a message of the last one for four seconds from now on."""
    await cluster.create_topic("t", queues=4)
    first = await cluster.start_consumer("g", "t", host="c1", work=slow_on_queue_three)
    await cluster.wait_converged(1)
    await anyio.sleep(2)
    producer = await cluster.start_producer()
    for queue in (Q0, Q1, Q2, Q3):
        await producer.send("t", b"x", queue=queue)
    await anyio.sleep(0.1)
    return first


# ------------------------------------------------------------------------------------------------------------ giving up


def test_idle_queues_move_at_once_and_only_the_busy_one_waits_for_its_listener(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await busy_on_queue_three(cluster)
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(0.5)
        assert second.queues == [Q2]
        await anyio.sleep(4)
        assert second.queues == [Q2, Q3]
        await anyio.sleep(1)
        assert second.bodies == [], "it was finished and committed before the queue moved"

    simulate(scenario, brokers=1)


def test_a_queue_that_should_come_back_while_it_is_abandoned_comes_back_when_it_is_out(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = await busy_on_queue_three(cluster)
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        await second.stop()
        await anyio.sleep(1)
        assert first.queues == [Q0, Q1, Q2]
        assert await cluster.wait_converged(3) == pytest.approx(1.9, abs=0.1)
        assert first.queues == [Q0, Q1, Q2, Q3]
        assert len(first.bodies) == 4

    simulate(scenario, brokers=1)


def test_a_queue_abandoned_is_committed_and_unlocked_in_one_request_with_the_others(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        await cluster.start_consumer("g", "t", host="c1")
        await cluster.wait_converged(1)
        await anyio.sleep(2)
        producer = await cluster.start_producer()
        for queue in (Q2, Q3):
            await producer.send("t", b"x", queue=queue)
        await anyio.sleep(0.1)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        assert wire.codes("c1").count("UNLOCK_BATCH_MQ") == 1
        assert (committed(cluster, Q2), committed(cluster, Q3)) == (1, 1)

    simulate(scenario, brokers=1)


def test_a_shutdown_waits_for_a_broker_that_does_not_answer_no_longer_than_a_request(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        started_s = cluster.simulation.loop.time()
        with cluster.simulation.network.stall("broker-a"):
            await consumer.stop()
        assert cluster.simulation.loop.time() - started_s <= REQUEST_TIMEOUT_S + 2.5

    simulate(scenario, brokers=1)


# -------------------------------------------------------------------------------------------------------------- getting


@pytest.mark.parametrize("another_joins", [False, True])
def test_a_lease_whose_grant_was_lost_on_its_way_strands_no_queue(simulate: Simulate, another_joins: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        faults: list[Any] = []

        def mute(event: Event) -> None:
            if event.kind == EventKind.LOCK_GRANTED and not faults:
                faults.append(cluster.simulation.network.partition("broker-a", "c1", one_way=True))

        cluster.watchers.append(mute)
        first = await cluster.start_consumer("g", "t", host="c1")
        await anyio.sleep(1)
        assert faults
        assert first.queues == []
        if another_joins:
            await cluster.start_consumer("g", "t")
        await anyio.sleep(3)
        faults[0].heal()
        await cluster.wait_converged(5)
        assert first.queues == ([Q0] if another_joins else [Q0, Q1])

    simulate(scenario, brokers=1)


# --------------------------------------------------------------------------------------------------------------- losing


def test_a_member_that_was_considered_dead_drops_what_others_have_and_gets_its_share_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        hung = await cluster.start_consumer("g", "t", session_timeout_s=9.0)
        heir = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        fault = hung.hang()
        await anyio.sleep(20)
        assert heir.queues == [Q0, Q1]
        fault.heal()
        hung.live = True
        await cluster.wait_converged(10)
        lost = cluster.events_of(EventKind.QUEUE_DROPPED, client=hung.client_id, topic="t", detail="lost")
        assert [event.queue_id for event in lost] == [0]

    simulate(scenario, brokers=1)


def test_when_the_broker_has_lost_its_newest_messages_the_queue_goes_on_below_and_commits_there(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        await producer.send_many("t", 10)
        await anyio.sleep(OFFSET_PERSIST_INTERVAL_S + 1)
        assert committed(cluster) == 10
        share = share_of(consumer)
        before = share.owned[Q0]
        share._moved(before, 7)
        assert before.detached
        assert share.owned[Q0].commit_offset == 7
        await share.persist()
        assert committed(cluster) == 7
        await anyio.sleep(1)
        assert [int(body) for body in consumer.bodies[10:]] == [7, 8, 9]
        await anyio.sleep(OFFSET_PERSIST_INTERVAL_S)
        assert committed(cluster) == 10

    simulate(scenario, brokers=1)


def test_a_commit_that_passes_the_answer_of_a_lease_is_not_taken_for_a_reset_of_the_group(simulate: Simulate) -> None:
    async def until_one_of_two_brokers_has_answered(_message: MessageExt) -> None:
        await anyio.sleep(16)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=until_one_of_two_brokers_has_answered)
        await cluster.wait_converged(1)
        await (await cluster.start_producer()).send("t", b"x", queue=MessageQueue("t", "broker-b", 0))
        for broker in cluster.brokers.values():
            await broker.crash()
        await anyio.sleep(12)
        for broker in cluster.brokers.values():
            await broker.start()
        slow = cluster.brokers["broker-a"].running
        hook = make_fault_hook(slow.server, slow.broker.groups, slow.broker.events, Random(1))
        hook.begin(parse_fault({"do": "delay", "code": "LOCK_BATCH_MQ", "by_s": 2.0}))
        await anyio.sleep(4.1)
        assert cluster.events_of(EventKind.LOCK_GRANTED, broker="broker-b", topic="t", n=1), "it is granted again"
        await share_of(consumer).persist()
        assert cluster.events_of(EventKind.OFFSET_COMMITTED, broker="broker-b", topic="t", offset=1)
        await anyio.sleep(30)
        assert consumer.bodies == [b"x"]

    simulate(scenario)


def test_when_the_broker_has_deleted_old_messages_the_queue_goes_on_above_with_what_it_has(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        share = share_of(consumer)
        owned = share.owned[Q0]
        share._moved(owned, 30)
        assert share.owned[Q0] is owned
        assert not owned.detached
        assert owned.process_queue.pull_offset == 30

    simulate(scenario, brokers=1)
