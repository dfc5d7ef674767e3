"""What sets a rebalance off: each trigger does its part alone, and without it that part does not happen."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.trigger import Trigger
from model.events import EventKind
from model.limits import (
    HEARTBEAT_INTERVAL_S,
    LEASE_CLOSE_GRACE_S,
    NOTIFY_WINDOW_S,
    REBALANCE_INTERVAL_S,
    RECONNECT_MAX_S,
    ROUTE_POLL_INTERVAL_S,
)
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

AT_ONCE_S = 0.1
"""Some round trips of the simulated network, which take 1 ms each."""
LONG_S = 90.0
"""Longer than every interval of a client: what has not happened by then will not."""

NOTHING: frozenset[Trigger] = frozenset()
EVERYTHING = frozenset(Trigger)


def only(*triggers: Trigger) -> frozenset[Trigger]:
    return frozenset(triggers)


async def never_converges(cluster: SimulatedCluster) -> bool:
    await anyio.sleep(LONG_S)
    return bool(cluster.differences())


async def send_one_to_each_queue(cluster: SimulatedCluster, topic: str) -> None:
    producer = await cluster.start_producer()
    for queue in cluster.target("g"):
        await producer.send(topic, b"x", queue=queue)


# ------------------------------------------------------------------------------------------------------ one by one


def test_start_alone_gives_a_new_consumer_its_queues_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", triggers=only(Trigger.START))
        await cluster.wait_converged(AT_ONCE_S)

    simulate(scenario)


def test_without_any_trigger_a_new_consumer_gets_nothing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", triggers=NOTHING)
        assert await never_converges(cluster)
        assert not cluster.events_of(EventKind.REBALANCE_BEGIN)

    simulate(scenario)


def test_notify_alone_makes_a_member_share_with_one_that_joins_and_take_over_from_one_that_leaves(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t", triggers=only(Trigger.START, Trigger.NOTIFY))
        await cluster.wait_converged(AT_ONCE_S)
        await anyio.sleep(1)
        second = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(AT_ONCE_S)
        assert len(first.queues) == 4
        await anyio.sleep(1)
        await second.stop()
        await cluster.wait_converged(AT_ONCE_S)
        begun = cluster.events_of(EventKind.REBALANCE_BEGIN, client=first.client_id)
        assert [event.detail for event in begun] == ["START", "NOTIFY", "NOTIFY"]

    simulate(scenario)


def test_without_notify_and_timer_a_member_never_sees_one_that_joins(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t", triggers=EVERYTHING - {Trigger.NOTIFY, Trigger.TIMER})
        await cluster.wait_converged(AT_ONCE_S)
        await anyio.sleep(2)  # its retry topic has got a route, and no other will change
        await cluster.start_consumer("g", "t")
        assert await never_converges(cluster)
        assert len(first.queues) == 8

    simulate(scenario)


def test_timer_alone_brings_a_member_to_its_target_within_one_turn(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        first = await cluster.start_consumer("g", "t", triggers=only(Trigger.TIMER))
        assert await cluster.wait_converged(REBALANCE_INTERVAL_S + 1) > REBALANCE_INTERVAL_S - 1
        await anyio.sleep(1)
        second = await cluster.start_consumer("g", "t")
        # The newcomer is refused, and waits for the moment in which the other one looks and gives way.
        took_s = await cluster.wait_converged(REBALANCE_INTERVAL_S + 1)
        assert took_s > REBALANCE_INTERVAL_S / 2
        await anyio.sleep(1)
        await second.stop()
        await cluster.wait_converged(REBALANCE_INTERVAL_S + 1)
        begun = cluster.events_of(EventKind.REBALANCE_BEGIN, client=first.client_id)
        assert {event.detail for event in begun} == {"TIMER"}

    simulate(scenario)


def test_route_alone_finds_queues_that_were_added_with_the_next_poll(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = await cluster.start_consumer("g", "t", triggers=only(Trigger.ROUTE))
        await anyio.sleep(40)
        await cluster.create_topic("t", queues=2)
        await cluster.wait_converged(ROUTE_POLL_INTERVAL_S + AT_ONCE_S)
        await anyio.sleep(40)
        await cluster.create_topic("t", queues=5)
        await cluster.wait_converged(ROUTE_POLL_INTERVAL_S + AT_ONCE_S)
        await anyio.sleep(40)
        await cluster.create_topic("t", queues=3)
        await cluster.wait_converged(ROUTE_POLL_INTERVAL_S + AT_ONCE_S)
        begun = cluster.events_of(EventKind.REBALANCE_BEGIN, client=consumer.client_id)
        assert {event.detail for event in begun} == {"ROUTE"}

    simulate(scenario)


def test_without_route_and_timer_added_queues_are_read_by_no_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t", triggers=EVERYTHING - {Trigger.ROUTE, Trigger.TIMER})
        await cluster.wait_converged(AT_ONCE_S)
        await cluster.create_topic("t", queues=5)
        assert await never_converges(cluster)

    simulate(scenario)


@pytest.mark.parametrize("with_lock", [True, False])
def test_lock_alone_brings_a_refused_queue_in_the_moment_it_is_released(simulate: Simulate, with_lock: bool) -> None:
    async def busy_for_a_while(message: MessageExt) -> None:
        await anyio.sleep(7)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        first = await cluster.start_consumer("g", "t", work=busy_for_a_while)
        await cluster.wait_converged(AT_ONCE_S)
        await send_one_to_each_queue(cluster, "t")
        await anyio.sleep(1)
        triggers = only(Trigger.START, Trigger.LOCK) if with_lock else only(Trigger.START)
        second = await cluster.start_consumer("g", "t", triggers=triggers)
        await anyio.sleep(1)
        assert cluster.events_of(EventKind.LOCK_REFUSED, client=second.client_id)
        assert second.queues == []
        if not with_lock:
            assert await never_converges(cluster)
            return
        await cluster.wait_converged(7)
        released = cluster.events_of(EventKind.QUEUE_RELEASED, client=first.client_id, topic="t")[0]
        acquired = cluster.events_of(EventKind.QUEUE_ACQUIRED, client=second.client_id, topic="t")[0]
        assert 0 <= acquired.t_ms - released.t_ms <= AT_ONCE_S * 1000
        assert acquired.cause == released.cause, "the release is the cause that everything can be traced to"

    simulate(scenario)


@pytest.mark.parametrize("with_reconnect", [True, False])
def test_reconnect_alone_gets_the_leases_back_that_a_lost_connection_ended(
    simulate: Simulate, with_reconnect: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        triggers = only(Trigger.START, Trigger.RECONNECT) if with_reconnect else only(Trigger.START)
        consumer = await cluster.start_consumer("g", "t", triggers=triggers)
        await cluster.wait_converged(AT_ONCE_S)
        await anyio.sleep(2)
        with cluster.simulation.network.stall(consumer.host):
            cluster.simulation.network.cut(consumer.host)
            await anyio.sleep(LEASE_CLOSE_GRACE_S + 0.01)
        assert cluster.differences(), "the brokers have waited for it in vain, and freed the leases"
        if with_reconnect:
            await cluster.wait_converged(RECONNECT_MAX_S)
        else:
            assert await never_converges(cluster)

    simulate(scenario)


# ----------------------------------------------------------------------------------------------------- what they give


def test_a_lost_notification_is_healed_by_the_timer_within_twenty_seconds(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        deaf = await cluster.start_consumer("g", "t", triggers=EVERYTHING - {Trigger.NOTIFY})
        await anyio.sleep(5)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert cluster.events_of(EventKind.NOTIFY_RECEIVED, client=deaf.client_id), "the broker did its part"
        assert cluster.differences()
        assert await cluster.wait_converged(20.0) > 1

    simulate(scenario)


def test_a_silent_member_is_replaced_at_its_expiry_and_not_a_timer_turn_later(simulate: Simulate) -> None:
    session_s = 3.0

    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options |= {"heartbeat_interval_s": session_s / 3}
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", session_timeout_s=session_s)
        silent = await cluster.start_consumer("g", "t", session_timeout_s=session_s)
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        silent.hang()
        assert await cluster.wait_converged(session_s + AT_ONCE_S) > session_s / 2
        leaves = cluster.events_of(EventKind.MEMBER_LEAVE, client=silent.client_id)
        assert {event.detail for event in leaves} == {"expiry"}
        acquired = [e.t_ms for e in cluster.events_of(EventKind.QUEUE_ACQUIRED) if e.t_ms >= leaves[0].t_ms]
        assert max(acquired) - min(e.t_ms for e in leaves) <= AT_ONCE_S * 1000

    simulate(scenario)


def test_a_member_that_was_silent_and_wakes_up_gets_its_share_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options |= {"heartbeat_interval_s": 1.0}
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", session_timeout_s=3.0)
        silent = await cluster.start_consumer("g", "t", session_timeout_s=3.0)
        await cluster.wait_converged(1)
        hung = silent.hang()
        await cluster.wait_converged(4)
        await anyio.sleep(10)
        hung.heal()
        silent.live = True
        await cluster.wait_converged(RECONNECT_MAX_S + 2)

    simulate(scenario)


def test_a_member_that_was_silent_does_not_do_again_what_another_has_done_in_between(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        free = anyio.Event()

        async def stuck(message: MessageExt) -> None:
            await free.wait()

        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"session_timeout_s": 3.0, "max_workers": 1, "max_queue_count": 5}
        silent = await cluster.start_consumer("g", "t", work=stuck, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        await anyio.sleep(1)
        hung = silent.hang()
        await anyio.sleep(5)
        other = await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        await other.stop()
        assert len(other.bodies) == 20
        hung.heal()
        silent.live = True
        await anyio.sleep(5)
        assert silent.queues == [], "its listener has a message of the queue still"
        free.set()
        await cluster.wait_converged(1)
        await producer.send("t", b"20")
        await anyio.sleep(1)
        assert silent.bodies == [b"0", b"20"]

    simulate(scenario, brokers=1)


def test_a_member_that_was_silent_goes_on_where_it_was_when_no_one_took_its_place(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        silent = await cluster.start_consumer("g", "t", session_timeout_s=3.0)
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        await anyio.sleep(6)
        hung = silent.hang()
        await anyio.sleep(5)
        hung.heal()
        silent.live = True
        await cluster.wait_converged(5)
        assert len(cluster.events_of(EventKind.LOCK_EXPIRED, topic="t")) == 1
        await producer.send("t", b"20")
        await anyio.sleep(1)
        assert silent.bodies == [b"%d" % n for n in range(21)]

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("down_s", [0.0, 4.0])
def test_a_broker_that_restarts_gets_its_members_back_without_waiting_for_the_next_heartbeat(
    simulate: Simulate, down_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        for _ in range(3):
            await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(2)  # the next poll and heartbeat are far away
        broker = cluster.brokers["broker-a"]
        await broker.crash()
        await anyio.sleep(down_s)
        await broker.start()
        took_s = await cluster.wait_converged(RECONNECT_MAX_S + AT_ONCE_S)
        assert took_s < HEARTBEAT_INTERVAL_S / 2
        members = broker.running.broker.groups.table.get("g")
        assert members is not None
        assert len(members.members) == 3

    simulate(scenario)


def test_a_broker_that_restarts_moves_no_queue(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        for _ in range(3):
            await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(2)
        before, at = cluster.owners("g"), len(cluster.events)
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(1)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(RECONNECT_MAX_S + 1)
        assert cluster.owners("g") == before
        assert cluster.events_of(EventKind.QUEUE_DROPPED, at) == []

    simulate(scenario)


def test_a_hundred_joins_in_a_row_cost_each_member_few_passes(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=100)
        first = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        at, started = len(cluster.events), cluster.simulation.loop.time()
        async with anyio.create_task_group() as starting:
            for _ in range(100):
                starting.start_soon(cluster.start_consumer, "g", "t")
        joined_s = cluster.simulation.loop.time() - started
        assert joined_s < NOTIFY_WINDOW_S
        await cluster.wait_converged(1)
        # Per broker: the leading edge and the end of its window. A pass may run between the two, and after a release.
        assert len(cluster.events_of(EventKind.NOTIFY_RECEIVED, at, client=first.client_id)) <= 4
        assert len(cluster.events_of(EventKind.REBALANCE_BEGIN, at, client=first.client_id)) <= 4
        assert len(cluster.events_of(EventKind.MEMBER_JOIN, at)) == 200
        passes = [len(cluster.events_of(EventKind.REBALANCE_BEGIN, at, client=c.client_id)) for c in cluster.consumers]
        assert max(passes) <= 10

    simulate(scenario)
