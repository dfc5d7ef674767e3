"""A group is put somewhere else while it consumes: everything comes from there, and nothing that was fetched before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.options import ConsumeOrder
from model.limits import LEASE_CLOSE_GRACE_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.offset_reset import QueueReset, ResetTo
from testbed.simulation.cluster.clients import Delivery, SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

SOON_S = 0.06
"""What listeners have when the answer comes takes 50 ms at the most, and a round trip of the network 1 ms."""


async def takes_fifty_ms(message: MessageExt) -> None:
    await anyio.sleep(0.05)


async def reset(
    cluster: SimulatedCluster, to: ResetTo, *, group: str = "g", topic: str = "t", **options: Any
) -> tuple[QueueReset, ...]:
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            return await admin.reset_offsets(group, topic, to, **options)


async def running(
    cluster: SimulatedCluster, n: int = 1600, *, members: int = 3, **options: Any
) -> list[SimulatedConsumer]:
    """Members of `g` on eight queues of `t`, busy with `n` messages."""
    await cluster.create_topic("t", queues=4)
    consumers = [await cluster.start_consumer("g", "t", work=takes_fifty_ms, **options) for _ in range(members)]
    await cluster.wait_converged(2)
    producer = await cluster.start_producer()
    await producer.send_many("t", n)
    return consumers


def delivered(consumers: Iterable[SimulatedConsumer], since: float = 0.0) -> list[Delivery]:
    deliveries = [d for consumer in consumers for d in consumer.deliveries if d.time_s >= since]
    return sorted(deliveries, key=lambda delivery: delivery.time_s)


def by_queue(deliveries: Iterable[Delivery]) -> dict[MessageQueue, list[int]]:
    offsets: dict[MessageQueue, list[int]] = {}
    for delivery in deliveries:
        offsets.setdefault(delivery.message.queue, []).append(delivery.message.offset)
    return offsets


def ends(cluster: SimulatedCluster) -> dict[MessageQueue, int]:
    found = {}
    for name, server in cluster.brokers.items():
        broker = server.running.broker
        topic_id = broker.topics.table.existing("t").topic_id
        found.update({MessageQueue("t", name, n): broker.store.max_offset(topic_id, n) for n in range(4)})
    return found


def committed(cluster: SimulatedCluster) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, name, queue_id): offset
        for name, server in cluster.brokers.items()
        for topic, queue_id, offset in server.running.broker.leases.offsets.of_group("g")
        if topic == "t"
    }


@pytest.mark.parametrize("order", [ConsumeOrder.NONE, ConsumeOrder.QUEUE])
def test_after_a_reset_to_earliest_all_is_redelivered_from_there_and_nothing_fetched_before(
    simulate: Simulate, order: ConsumeOrder
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = await running(cluster, max_workers=4, order=order)
        await anyio.sleep(0.2)
        before = by_queue(delivered(consumers))
        assert all(len(offsets) > 10 for offsets in before.values())
        fetched = sum(owned.process_queue.count for c in consumers for owned in _owned(c))
        assert fetched > 200, "there has to be something that must no longer be handed out"
        rows = await reset(cluster, ResetTo.earliest())
        assert [row.queue for row in rows] == sorted(ends(cluster))
        assert all(row.after == 0 and not row.clamped for row in rows)
        assert {row.owner for row in rows} == {consumer.client_id for consumer in consumers}
        at = cluster.simulation.loop.time() + SOON_S
        assert await cluster.wait_converged(SOON_S) < SOON_S, "the owners ask for their queues at once"
        await anyio.sleep(20)
        # Whoever began again does so at 0; what was handed out in the round trips of the reset is at the front.
        for queue, offsets in by_queue(delivered(consumers)).items():
            again = offsets[_last_zero(offsets) :]
            assert (
                again == list(range(ends(cluster)[queue]))
                if order is ConsumeOrder.QUEUE
                else sorted(again) == list(range(ends(cluster)[queue]))
            ), queue
        assert delivered(consumers, at)[0].message.offset < 60
        assert committed(cluster) == ends(cluster)
        assert sum(consumer.consumer.late_results for consumer in consumers) > 0

    simulate(scenario)


def _last_zero(offsets: list[int]) -> int:
    return len(offsets) - 1 - offsets[::-1].index(0)


def _owned(consumer: SimulatedConsumer) -> list[Any]:
    share = consumer.consumer._ownership
    assert share is not None
    return list(share.owned.values())


def test_a_reset_to_latest_skips_what_is_stored_also_what_was_fetched(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = await running(cluster, max_workers=4)
        rows = await reset(cluster, ResetTo.latest())
        assert {row.queue: row.after for row in rows} == ends(cluster)
        at = cluster.simulation.loop.time() + SOON_S
        await anyio.sleep(5)
        assert delivered(consumers, at) == []
        await cluster.producers[0].send_many("t", 40, first=1600)
        await anyio.sleep(5)
        assert sorted(int(d.body) for d in delivered(consumers, at)) == list(range(1600, 1640))
        assert committed(cluster) == ends(cluster)

    simulate(scenario)


def test_a_reset_to_a_time_brings_what_was_stored_from_then_on(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = await running(cluster, 400, max_workers=20)
        await anyio.sleep(10)
        from_ms = cluster.simulation.clock_ms()
        await cluster.producers[0].send_many("t", 100, first=400)
        await anyio.sleep(10)
        at = cluster.simulation.loop.time()
        await reset(cluster, ResetTo.time(int(from_ms)))
        await anyio.sleep(10)
        assert sorted(int(d.body) for d in delivered(consumers, at)) == list(range(400, 500))

    simulate(scenario)


def test_a_queue_so_full_that_it_is_not_pulled_is_reset_as_fast(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = await running(cluster, members=1, max_workers=1, max_queue_count=10, pull_batch=32)
        await reset(cluster, ResetTo.latest())
        at = cluster.simulation.loop.time() + SOON_S
        assert await cluster.wait_converged(SOON_S) < SOON_S
        await anyio.sleep(10)
        assert delivered(consumers, at) == []

    simulate(scenario)


def test_a_member_that_crashes_in_the_middle_costs_nothing_behind_the_reset(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = await running(cluster, max_workers=8)
        await reset(cluster, ResetTo.offset(50))
        at = cluster.simulation.loop.time()
        await anyio.sleep(1)
        await consumers[0].crash()
        await anyio.sleep(30)
        done = by_queue(delivery for delivery in delivered(consumers, at) if delivery.finished)
        for queue, end in ends(cluster).items():
            assert set(range(50, end)) <= set(done[queue]), queue
        assert committed(cluster) == ends(cluster)

    simulate(scenario)


@pytest.mark.parametrize("away_s", [LEASE_CLOSE_GRACE_S - 0.1, LEASE_CLOSE_GRACE_S + 0.1])
def test_a_reset_while_the_owner_is_cut_off_is_not_undone_when_it_comes_back(simulate: Simulate, away_s: float) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        # So full that no pull tells it, and committed so far that it could take the lease for its own again.
        [consumer] = await running(cluster, 800, members=1, max_workers=4, max_queue_count=10)
        await anyio.sleep(6)
        assert min(committed(cluster).values()) > 10
        network = cluster.simulation.network
        with network.stall(consumer.host):
            network.cut(consumer.host)
            await anyio.sleep(away_s)
            rows = await reset(cluster, ResetTo.earliest())
            assert {row.owner for row in rows} == {consumer.client_id if away_s < LEASE_CLOSE_GRACE_S else None}
        at = cluster.simulation.loop.time()
        await anyio.sleep(30)
        again = by_queue(delivered([consumer], at))
        for queue, end in ends(cluster).items():
            offsets = again[queue]
            assert sorted(offsets[_last_zero(offsets) :]) == list(range(end)), queue
        assert committed(cluster) == ends(cluster)

    simulate(scenario)


def test_a_listener_that_has_a_message_is_waited_for_before_its_queue_begins_again(simulate: Simulate) -> None:
    with_listener = 0

    async def alone(message: MessageExt) -> None:
        nonlocal with_listener
        with_listener += 1
        assert with_listener == 1
        await anyio.sleep(3)
        with_listener -= 1

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-a"])
        consumer = await cluster.start_consumer("g", "t", work=alone, order=ConsumeOrder.QUEUE)
        await cluster.wait_converged(2)
        await (await cluster.start_producer()).send_many("t", 3)
        await anyio.sleep(4)
        await reset(cluster, ResetTo.earliest())
        await anyio.sleep(20)
        assert [delivery.message.offset for delivery in consumer.deliveries] == [0, 1, 0, 1, 2]
        assert all(delivery.finished for delivery in consumer.deliveries)
        assert consumer.consumer.late_results == 1

    simulate(scenario)


def test_a_group_without_members_begins_where_it_was_put(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        [consumer] = await running(cluster, 400, members=1, max_workers=20)
        await anyio.sleep(5)
        await consumer.stop()
        rows = await reset(cluster, ResetTo.shift(-10))
        assert {row.owner for row in rows} == {None}
        again = await cluster.start_consumer("g", "t")
        await anyio.sleep(5)
        assert by_queue(again.deliveries) == {queue: list(range(end - 10, end)) for queue, end in ends(cluster).items()}

    simulate(scenario)


def test_a_broker_that_is_killed_after_its_answer_still_knows_of_the_reset(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumers = await running(cluster, 400, members=2, max_workers=20)
        await anyio.sleep(10)
        assert committed(cluster) == ends(cluster)
        at = cluster.simulation.loop.time()
        await reset(cluster, ResetTo.earliest())
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(1)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(60)
        for queue, offsets in by_queue(d for d in delivered(consumers, at) if d.finished).items():
            assert set(offsets) == set(range(ends(cluster)[queue])), queue
        assert committed(cluster) == ends(cluster)

    simulate(scenario)
