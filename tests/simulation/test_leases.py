"""Leases: what a lost connection costs, and that nobody hands messages out under a lease that may have ended."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest

from broker.leases.handlers import LeaseHandlers
from client.listeners.listener import ConsumeResult
from client.trigger import Trigger
from model.errors import SystemBusy
from model.events import EventKind
from model.limits import LEASE_CLOSE_GRACE_S, RECONNECT_MAX_S
from model.message import MessageExt
from model.quirks import Quirk
from remoting.command import Command
from remoting.connection import Connection
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import EPOCH_MS
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


def test_a_release_that_a_broker_was_too_busy_for_is_repeated_and_strands_no_queue(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlock, busy = LeaseHandlers.unlock, ["once", "twice"]

    def sometimes(handlers: LeaseHandlers, connection: Connection, request: Command) -> None:
        if busy and request.header["group"] == "g":
            busy.pop()
            raise SystemBusy("too much to do")
        unlock(handlers, connection, request)

    monkeypatch.setattr(LeaseHandlers, "unlock", sometimes)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(2)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(10)
        assert not busy

    simulate(scenario, brokers=1)


# ------------------------------------------------------------------------------------------------------- refused queues


@pytest.mark.walk
def test_a_refused_queue_is_acquired_when_its_release_is_announced_and_no_one_polls(simulate: Simulate) -> None:
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
        new_member = await cluster.start_consumer("g", "t", rebalance_interval_s=3600.0)
        await anyio.sleep(holding_s / 2)
        refused = cluster.events_of(EventKind.LOCK_REFUSED, client=new_member.client_id, topic="t")
        assert {event.detail for event in refused} == {first.client_id}
        await anyio.sleep(2 * holding_s)
        released = {(e.broker, e.queue_id): e.t_ms for e in cluster.events_of(EventKind.QUEUE_RELEASED, topic="t")}
        acquired = cluster.events_of(EventKind.QUEUE_ACQUIRED, client=new_member.client_id, topic="t")
        assert len(acquired) == 2
        for event in acquired:
            assert 0 <= event.t_ms - released[event.broker, event.queue_id] <= 5

    simulate(scenario)


# ------------------------------------------------------------------------------------------ who cannot hear a broker


def handed_out_too_late(cluster: SimulatedCluster, member: SimulatedConsumer) -> list[bytes]:
    """Messages that a listener of this member was called with when the queue was another member's already."""
    granted = cluster.events_of(EventKind.LOCK_GRANTED, topic="t")
    late = []
    for delivery in member.deliveries:
        queue = delivery.message.queue
        of_queue = [e for e in granted if (e.broker, e.queue_id) == (queue.broker_name, queue.queue_id)]
        before = [e for e in of_queue if e.t_ms < EPOCH_MS + round(delivery.time_s * 1000)]
        if before and before[-1].client != member.client_id:
            late.append(delivery.body)
    return late


async def with_a_backlog(cluster: SimulatedCluster, **options: Any) -> SimulatedConsumer:
    """One member that works at a hundred messages a second, and has got more than it can work off in this test."""

    async def slowly(message: object) -> None:
        await anyio.sleep(0.01)

    await cluster.create_topic("t", queues=1)
    member = await cluster.start_consumer("g", "t", work=slowly, max_workers=1, session_timeout_s=3.0, **options)
    producer = await cluster.start_producer()
    await producer.send_many("t", 900)
    await anyio.sleep(0.2)
    return member


def test_a_member_that_receives_nothing_stops_before_its_queue_is_another_members(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        member = await with_a_backlog(cluster)
        other = await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert member.queues
        hung = member.hang()
        await anyio.sleep(4)
        assert other.queues
        assert len(member.bodies) < 700, "its last sign of life was at most a third of the session before"
        stopped_at = len(member.bodies)
        hung.heal()
        member.live = True
        await anyio.sleep(5)
        assert handed_out_too_late(cluster, member) == []
        assert stopped_at == len(member.bodies) or member.queues

    simulate(scenario, brokers=1)


def test_a_member_whose_connection_is_lost_stops_at_once_and_goes_on_when_its_lease_is_confirmed(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        network = cluster.simulation.network
        member = await with_a_backlog(cluster)
        await anyio.sleep(1)
        with network.stall(member.host):
            network.cut(member.host)
            cut_at = cluster.simulation.loop.time()
            await anyio.sleep(0.15)
        await anyio.sleep(1)
        times = [delivery.time_s for delivery in member.deliveries]
        [confirmed] = cluster.events_of(EventKind.LOCK_GRANTED, client=member.client_id, topic="t")[1:]
        [first] = cluster.events_of(EventKind.LOCK_GRANTED, client=member.client_id, topic="t")[:1]
        assert confirmed.version == first.version, "the same token: nobody else was granted it"
        went_on_at = (confirmed.t_ms - EPOCH_MS) / 1000
        assert not [time_s for time_s in times if cut_at < time_s < went_on_at]
        assert [time_s for time_s in times if went_on_at <= time_s < went_on_at + 0.05]
        assert member.bodies == [b"%d" % n for n in range(len(member.bodies))], "with the messages that it had"

    simulate(scenario, brokers=1)


def test_failed_messages_wait_for_their_lease_without_spinning_and_are_tried_again_after_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        network = cluster.simulation.network
        attempts = []

        async def fails_once(message: MessageExt) -> ConsumeResult | None:
            attempts.append(cluster.simulation.loop.time())
            return ConsumeResult.RECONSUME_LATER if len(attempts) == 1 else None

        await cluster.create_topic("t", queues=1)
        member = await cluster.start_consumer("g", "t", work=fails_once, order="queue", session_timeout_s=3.0)
        producer = await cluster.start_producer()
        await producer.send("t", b"0")
        await anyio.sleep(0.1)
        with network.stall(member.host):
            network.cut(member.host)
            await anyio.sleep(2.0)  # its wait is over after one
            assert len(attempts) == 1
        await anyio.sleep(RECONNECT_MAX_S)
        assert len(attempts) == 2

    simulate(scenario, brokers=1)


def test_after_a_cut_no_one_hands_out_what_is_another_members(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        network = cluster.simulation.network
        member = await with_a_backlog(cluster, order="queue")
        await cluster.start_consumer("g", "t")
        with network.stall(member.host):
            network.cut(member.host)
            await anyio.sleep(1)
        await anyio.sleep(5)
        assert handed_out_too_late(cluster, member) == []

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_network_does_no_one_hands_out_what_is_another_members(simulate: Simulate, seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        network, random = cluster.simulation.network, cluster.simulation.random

        async def slowly(message: object) -> None:
            await anyio.sleep(random.random() * 0.4)

        await cluster.create_topic("t", queues=2)
        options: dict[str, Any] = {"work": slowly, "session_timeout_s": 3.0, "max_workers": 4}
        members = [await cluster.start_consumer("g", "t", **options) for _ in range(3)]
        producer = await cluster.start_producer()
        await producer.send_many("t", 1000)
        for _ in range(6):
            member = random.choice(members)
            if random.random() < 0.5:
                fault = network.stall(member.host)
                network.cut(member.host)
            else:
                fault = network.partition(
                    member.host, random.choice(list(cluster.brokers)), one_way=random.random() < 0.5
                )
            with fault:
                await anyio.sleep(random.random() * 6)
            await anyio.sleep(random.random() * 2)
        await anyio.sleep(20)
        assert [handed_out_too_late(cluster, member) for member in members] == [[], [], []]

    simulate(scenario, seed=seed)


# ------------------------------------------------------------------------------------------------------------ the quirk


def second_deliveries(simulate: Simulate, quirks: frozenset[Quirk]) -> int:
    """How often a listener finished a message again while members joined and left in good order."""

    async def scenario(cluster: SimulatedCluster) -> int:
        async def slowly(message: object) -> None:
            await anyio.sleep(0.05)

        await cluster.create_topic("t")
        members = [await cluster.start_consumer("g", "t", work=slowly) for _ in range(2)]
        producer = await cluster.start_producer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.send_many, "t", 2000)
            for _ in range(3):
                members.append(await cluster.start_consumer("g", "t", work=slowly))
                await anyio.sleep(0.3)
                await members.pop(0).stop()
                await anyio.sleep(0.3)
        await anyio.sleep(30)
        times = Counter(d.body for each in cluster.consumers for d in each.deliveries if d.finished)
        assert len(times) == 2000, "nothing was lost"
        return times.total() - 2000

    return simulate(scenario, quirks=quirks)


def test_members_that_join_and_leave_cost_no_second_delivery(simulate: Simulate) -> None:
    assert second_deliveries(simulate, frozenset()) == 0


def test_under_the_quirk_members_that_join_and_leave_cost_second_deliveries(simulate: Simulate) -> None:
    assert second_deliveries(simulate, frozenset({Quirk.OVERLAPPING_HANDOVER})) > 10
