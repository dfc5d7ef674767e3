"""Leases: what a lost connection costs, and that nobody hands messages out under a lease that may have ended."""

from __future__ import annotations

import anyio
import pytest

from client.rebalance import Trigger
from model.events import EventKind
from model.limits import LEASE_CLOSE_GRACE_S
from simulation.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

MOVES = (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED, EventKind.LOCK_EXPIRED, EventKind.MEMBER_LEAVE)


def moves(cluster: SimulatedCluster, since: int) -> list[str]:
    return [f"{event.kind} {event.client} {event.detail}" for event in cluster.events[since:] if event.kind in MOVES]


# --------------------------------------------------------------------------------------------- connections that close


def test_a_cut_of_thirty_milliseconds_moves_no_queue(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        network = cluster.simulation.network
        await cluster.create_topic("t")
        consumers = [await cluster.start_consumer("g", "t") for _ in range(3)]
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        since = len(cluster.events)
        for consumer in consumers:
            with network.stall(consumer.host):
                network.cut(consumer.host)
                await anyio.sleep(0.03)
            await anyio.sleep(1)
        assert moves(cluster, since) == []
        producer = await cluster.start_producer()
        await producer.send_many("t", 40)
        await anyio.sleep(0.1)
        assert sum(len(consumer.bodies) for consumer in consumers) == 40

    simulate(scenario)


def test_connections_that_are_refused_for_a_moment_move_no_queue(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        network = cluster.simulation.network
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        since = len(cluster.events)
        for broker in cluster.brokers:
            with network.refuse(broker, 10911):
                network.cut(consumer.host, broker)
                await anyio.sleep(0.1)
        await anyio.sleep(1)
        assert moves(cluster, since) == []

    simulate(scenario)


def test_the_queues_of_a_killed_member_are_consumed_again_within_a_second(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        survivor = await cluster.start_consumer("g", "t", order="queue")
        doomed = await cluster.start_consumer("g", "t", order="queue")
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        lost = doomed.queues
        await doomed.crash()
        killed_at = cluster.simulation.loop.time()
        producer = await cluster.start_producer()
        for queue in lost:
            await producer.send("t", b"%d on %s" % (queue.queue_id, queue.broker_name.encode()), queue=queue)
        await anyio.sleep(LEASE_CLOSE_GRACE_S + 0.1)
        assert len(survivor.bodies) == len(lost) == 4
        assert all(delivery.time_s - killed_at > LEASE_CLOSE_GRACE_S - 0.01 for delivery in survivor.deliveries)

    simulate(scenario)


# ------------------------------------------------------------------------------------------------------- refused queues


def test_a_refused_queue_is_acquired_when_its_release_is_announced_and_nobody_polls(simulate: Simulate) -> None:
    holding_s = 3.0

    async def scenario(cluster: SimulatedCluster) -> None:
        async def hold(message: object) -> None:
            await anyio.sleep(holding_s)

        cluster.client_options |= {"triggers": frozenset(Trigger) - {Trigger.TIMER}}
        await cluster.create_topic("t", queues=2)
        first = await cluster.start_consumer("g", "t", work=hold, rebalance_interval_s=3600.0)
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        await producer.send_many("t", 8)
        await anyio.sleep(0.1)
        newcomer = await cluster.start_consumer("g", "t", rebalance_interval_s=3600.0)
        await anyio.sleep(holding_s / 2)
        refused = cluster.events_of(EventKind.LOCK_REFUSED, client=newcomer.client_id, topic="t")
        assert {event.detail for event in refused} == {first.client_id}
        await anyio.sleep(2 * holding_s)
        released = {(e.broker, e.queue_id): e.t_ms for e in cluster.events_of(EventKind.QUEUE_RELEASED, topic="t")}
        acquired = cluster.events_of(EventKind.QUEUE_ACQUIRED, client=newcomer.client_id, topic="t")
        assert len(acquired) == 2
        for event in acquired:
            assert 0 <= event.t_ms - released[event.broker, event.queue_id] <= 5

    simulate(scenario)
