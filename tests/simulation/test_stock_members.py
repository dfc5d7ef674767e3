"""Consumers of RocketMQ 5 lose nothing: members and brokers are killed, and groups have members of several kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from client.options import ConsumeMode
from model.heartbeat import ConsumeFrom
from model.message import MESSAGE_GROUP, MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.stock_consumers import Notes, set_group, start_stock

pytestmark = pytest.mark.simulation

AGAIN_S = 10.1
"""Within this time after the end of a push consumer its messages are delivered again."""


def bodies(n: int) -> set[bytes]:
    return {b"%d" % number for number in range(n)}


def test_messages_of_a_killed_push_consumer_come_again_within_ten_seconds(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        busy, notes = Notes(work_s=1_000.0), Notes()
        killed = await start_stock(cluster, busy)
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        other = await start_stock(cluster, notes)
        await anyio.sleep(60)
        assert not notes.got, "its messages stay invisible as long as it lives"
        await killed.crash()
        began = anyio.current_time()
        await anyio.sleep(AGAIN_S)
        assert set(notes.bodies) == bodies(20)
        assert max(at for _, at in notes.got) - began <= AGAIN_S
        await anyio.sleep(1)
        assert set(notes.ended) == bodies(20)
        await other.stop()

    simulate(scenario)


def test_messages_of_a_push_consumer_that_takes_leave_come_again_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        busy, notes = Notes(work_s=1_000.0), Notes()
        leaving = await start_stock(cluster, busy)
        producer = await cluster.start_producer()
        await producer.send_many("t", 5)
        await start_stock(cluster, notes)
        await leaving.stop()
        await anyio.sleep(0.1)
        assert set(notes.bodies) == bodies(5)

    simulate(scenario)


async def consume_while_a_broker_is_away(
    cluster: SimulatedCluster, end: Callable[[], Awaitable[object]], *, is_push: bool
) -> Notes:
    """Send 60 messages in three rounds. In each, `end` ends broker-a during consumption, and it starts again."""
    notes = Notes(work_s=0.2)
    await start_stock(cluster, notes, is_push=is_push)
    producer = await cluster.start_producer()
    for round_ in range(3):
        await producer.send_many("t", 20, first=20 * round_)
        await anyio.sleep(0.3)
        await end()
        await anyio.sleep(2)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(5)
    await anyio.sleep(30)
    return notes


@pytest.mark.parametrize("is_push", [True, False])
def test_consumers_go_on_after_a_broker_was_killed(simulate: Simulate, *, is_push: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        notes = await consume_while_a_broker_is_away(cluster, cluster.brokers["broker-a"].crash, is_push=is_push)
        assert set(notes.ended) == bodies(60)

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("is_push", [True, False])
def test_a_broker_that_is_stopped_and_started_again_delivers_each_message_once(
    simulate: Simulate, *, is_push: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)

        async def stop() -> None:
            began = anyio.current_time()
            await cluster.brokers["broker-a"].stop()
            assert anyio.current_time() - began < 0.1, "its clients close their connections at once"

        notes = await consume_while_a_broker_is_away(cluster, stop, is_push=is_push)
        assert sorted(notes.ended) == sorted(notes.bodies) == sorted(bodies(60))

    simulate(scenario, brokers=1)


def test_a_group_of_every_kind_of_member_loses_nothing_when_some_are_killed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        done: set[bytes] = set()

        async def work(message: MessageExt) -> None:
            await anyio.sleep(0.1)
            done.add(message.body)

        await cluster.create_topic("t", queues=4)
        options: dict[str, Any] = {"work": work, "consume_from": ConsumeFrom.FIRST_OFFSET}
        pulls = await cluster.start_consumer("g", "t", **options)
        pops = await cluster.start_consumer("g", "t", mode=ConsumeMode.POP, invisible_s=5.0, **options)
        pushed, received, killed = Notes(work_s=0.1), Notes(work_s=0.1), Notes(work_s=0.1)
        await start_stock(cluster, pushed)
        await start_stock(cluster, received, is_push=False)
        dying = await start_stock(cluster, killed)
        producer = await cluster.start_producer()
        await producer.send_many("t", 50)
        assert len(pulls.queues) == 2, "it owns the queues of one of five members, and pops pass over them"
        await anyio.sleep(1)
        await pulls.crash()
        cluster.consumers.remove(pulls)
        for number in range(50, 250):
            await producer.send("t", b"%d" % number)
            await anyio.sleep(0.02)
        await dying.crash()
        await pops.crash()
        cluster.consumers.remove(pops)
        for number in range(250, 350):
            await producer.send("t", b"%d" % number)
            await anyio.sleep(0.02)
        await anyio.sleep(60)
        assert done | {*pushed.ended, *received.ended, *killed.ended} == bodies(350)
        assert all((pulls.bodies, pops.bodies, pushed.ended, received.ended, killed.ended)), "each had its share"

    simulate(scenario)


def test_the_order_of_message_groups_is_kept_when_messages_fail_and_a_member_is_killed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await set_group(cluster, fifo=True, max_attempts=3, retry_delays_ms=[500])
        notes = Notes(fails_once=[b"7", b"20", b"41"], work_s=0.1)
        members = [await start_stock(cluster, notes) for _ in range(2)]
        producer = await cluster.start_producer()
        for number in range(120):
            name = f"account-{number % 3}"
            await producer.send("t", b"%d" % number, key=name, properties={MESSAGE_GROUP: name})
            if number == 60:
                await members[0].crash()
                await cluster.brokers["broker-a"].crash()
                await cluster.brokers["broker-a"].start()
        await anyio.sleep(120)
        assert set(notes.ended) == bodies(120)
        for account in range(3):
            first_ends = list(dict.fromkeys(int(body) for body in notes.done if int(body) % 3 == account))
            assert first_ends == sorted(first_ends)

    simulate(scenario)
