"""Members that say they come back: their processes are restarted, and no queue goes to anybody else."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.errors import ClientIdConflict, ConfigError
from model.events import Event, EventKind
from model.names import is_retry_topic
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

WITHIN_S = 30.0


async def start(cluster: SimulatedCluster, number: int, **options: Any) -> SimulatedConsumer:
    named = {"host": f"m{number:03}", "instance_name": f"fixed{number}", "rejoin_within_s": WITHIN_S, **options}
    return await cluster.start_consumer("g", "t", **named)


async def start_again(cluster: SimulatedCluster, number: int) -> SimulatedConsumer:
    """Start another process of a member. An address makes it another one in this process, under the same client id."""
    return await start(cluster, number, client_ip=f"m{number:03}")


def of_kind(cluster: SimulatedCluster, *kinds: EventKind) -> list[Event]:
    return [event for event in cluster.events if event.kind in kinds]


def owners_of_leases(events: list[Event]) -> dict[tuple[str, str, int], set[str]]:
    owners: dict[tuple[str, str, int], set[str]] = {}
    for event in events:
        if event.kind == EventKind.LOCK_GRANTED and not is_retry_topic(event.topic):
            owners.setdefault((event.topic, event.broker, event.queue_id), set()).add(event.client)
    return owners


def test_a_rolling_restart_of_members_that_come_back_moves_no_queue(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=20)
        members = [await start(cluster, number) for number in range(10)]
        await cluster.wait_converged(15)
        producer = await cluster.start_producer()
        begun, versions = len(cluster.events), [event.version for event in of_kind(cluster, EventKind.NOTIFY_SENT)]
        sent = 0
        for number, member in enumerate(members):
            await member.stop() if number % 2 else await member.crash()
            for _ in range(10):
                await producer.send("t", b"%d" % sent)
                sent += 1
            await anyio.sleep(5)
            members[number] = await start_again(cluster, number)
            await anyio.sleep(1)
        await anyio.sleep(40)
        events = cluster.events[begun:]
        assert all(len(owners) == 1 for owners in owners_of_leases(events).values())
        assert not [event for event in events if event.kind in (EventKind.MEMBER_LEAVE, EventKind.MEMBER_JOIN)]
        assert [event.version for event in of_kind(cluster, EventKind.NOTIFY_SENT)] == versions
        kinds = [event.kind for event in events if event.node == "broker-a" and event.kind.startswith("MEMBER_")]
        assert kinds.count(EventKind.MEMBER_BACK) == 10
        assert kinds.count(EventKind.MEMBER_AWAY) == 5, "of those that were stopped; the others crashed"
        bodies = {delivery.message.body for consumer in cluster.consumers for delivery in consumer.deliveries}
        assert bodies == {b"%d" % number for number in range(sent)}

    simulate(scenario)


@pytest.mark.parametrize("crashes", [False, True])
def test_after_its_time_such_a_member_has_left_like_any_other(simulate: Simulate, crashes: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        first, second = await start(cluster, 1), await start(cluster, 2)
        await cluster.wait_converged(15)
        await (first.crash() if crashes else first.stop())
        await anyio.sleep(WITHIN_S - 1)
        assert len(second.queues) == 2
        await anyio.sleep(2)
        assert len(second.queues) == 4
        assert {event.detail for event in of_kind(cluster, EventKind.MEMBER_LEAVE)} == {"close"}

    simulate(scenario)


def test_of_two_live_processes_under_one_name_the_later_is_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await start(cluster, 1)
        with pytest.raises(ClientIdConflict):
            await start_again(cluster, 1)

    simulate(scenario)


def test_what_the_old_process_held_is_not_the_new_ones(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        first = await start(cluster, 1)
        await cluster.wait_converged(15)
        tokens = {event.version for event in of_kind(cluster, EventKind.LOCK_GRANTED)}
        await first.crash()
        await anyio.sleep(3)
        begun = len(cluster.events)
        await start_again(cluster, 1)
        await cluster.wait_converged(5)
        again = [event for event in cluster.events[begun:] if event.kind == EventKind.LOCK_GRANTED]
        assert len(again) >= 4
        assert tokens.isdisjoint(event.version for event in again)
        ended = [event for event in cluster.events[begun:] if event.kind == EventKind.LOCK_EXPIRED]
        assert {event.detail for event in ended} == {"replaced"}

    simulate(scenario)


def test_a_restarted_broker_still_waits_for_a_member_that_is_away(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        first, second = await start(cluster, 1), await start(cluster, 2)
        await cluster.wait_converged(15)
        await first.stop()
        await cluster.brokers["broker-a"].stop()
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(5)
        await start_again(cluster, 1)
        await cluster.wait_converged(5)
        assert not of_kind(cluster, EventKind.MEMBER_LEAVE)
        assert len(second.queues) == 2

    simulate(scenario)


def test_a_member_that_comes_back_needs_a_name(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        with pytest.raises(ConfigError, match="rejoin_within_s needs an instance_name"):
            await start(cluster, 1, instance_name=None)

    simulate(scenario)
