"""What operators set for a group takes effect at once on members that run, on every broker, and lasts."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.admin.records import GroupInfo
from model.errors import GroupNotExist, InvalidParameter, NetworkError, NoPermission
from model.events import EventKind
from model.group_settings import DEFAULT_SETTINGS, GroupSettings
from model.heartbeat import MessageModel
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedPopConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

KINDS: dict[str, dict[str, Any]] = {
    "pull": {},
    "in order": {"order": "queue", "suspend_s": 0.1},
    "pop": {"mode": "pop", "invisible_s": 3.0},
    "pop in order": {"mode": "pop", "order": "queue", "suspend_s": 0.1},
}
A_RETRY_S = 1.1
"""A client asks a broker that refused it again after a second."""


async def set_group(cluster: SimulatedCluster, **changes: Any) -> dict[str, GroupSettings]:
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            return dict(await admin.set_group("g", **changes))


async def shown(cluster: SimulatedCluster) -> GroupInfo:
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            return await admin.group("g")


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_is_switched_off_gets_nothing_keeps_its_queues_and_goes_on_where_it_was(
    simulate: Simulate, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        consumer = await cluster.start_consumer("g", "t", **KINDS[kind])
        producer = await cluster.start_producer()
        await producer.send_many("t", 8)
        await anyio.sleep(5)
        assert len(consumer.bodies) == 8
        await set_group(cluster, consume=False)
        await producer.send_many("t", 8, first=8)
        await anyio.sleep(60)
        assert len(consumer.bodies) == 8, "also pulls that were parked get nothing"
        assert (await shown(cluster)).switched_off == ("broker-a", "broker-b")
        await set_group(cluster, consume=True)
        await anyio.sleep(A_RETRY_S)
        assert sorted(consumer.bodies) == sorted(b"%d" % n for n in range(16))
        assert EventKind.QUEUE_DROPPED not in {event.kind for event in cluster.events}

    with caplog.at_level(logging.INFO):
        simulate(scenario, brokers=2)
    warnings = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    reported = [text for text in warnings if "is switched off" in text]
    assert len(reported) == 1, "one for all queues, however long it lasts"
    assert "to let it consume again, 'rlab group set g --consume'" in reported[0]
    assert len([record for record in caplog.records if "is no longer refused messages" in record.message]) == 1


def test_who_receives_by_hand_gets_the_error(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        popping = await cluster.start_popper("g", "t")
        await set_group(cluster, consume=False)
        with pytest.raises(NoPermission, match="group 'g' is switched off on broker 'broker-a'"):
            await popping.receive(wait_s=1)
        await set_group(cluster, consume=True)
        assert await popping.receive(wait_s=1) == []

    simulate(scenario, brokers=1)


def test_dead_letters_of_a_group_that_is_switched_off_can_be_read(simulate: Simulate) -> None:
    async def fails(message: MessageExt) -> None:
        raise ValueError("no")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", work=fails, max_attempts=0)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(1)
        await set_group(cluster, consume=False)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                assert [letter.message.body async for letter in admin.dead_letters("g").letters()] == [b"x"]

    simulate(scenario, brokers=1)


def test_only_broadcasting_members_are_refused_where_broadcasting_is(simulate: Simulate, tmp_path: Any) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        own: dict[str, Any] = {"model": MessageModel.BROADCASTING, "instance_name": "one", "offsets_dir": tmp_path}
        everything = await cluster.start_consumer("g", "t", **own)
        sharing = await cluster.start_consumer("other", "t")
        await set_group(cluster, broadcast=False)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                await admin.set_group("other", broadcast=False)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(5)
        assert (everything.bodies, sharing.bodies) == ([], [b"x"])
        await set_group(cluster, broadcast=True)
        await anyio.sleep(A_RETRY_S)
        assert everything.bodies == [b"x"]

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_attempts_of_a_group_overrule_those_of_members_that_run_and_of_those_that_come_later(
    simulate: Simulate, kind: str
) -> None:
    async def fails(message: MessageExt) -> None:
        raise ValueError("never")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        options: dict[str, Any] = {"work": fails, "retry_delay_ms": 100, "max_attempts": 5, **KINDS[kind]}
        for n, attempts in enumerate((1, 7)):
            consumer = await cluster.start_consumer("g", "t", **options)
            await anyio.sleep(1)
            await set_group(cluster, max_attempts=attempts)
            await producer.send("t", b"%d" % n)
            await anyio.sleep(15)
            assert consumer.bodies == [b"%d" % n] * (attempts + 1)
            await consumer.stop()
        later = await cluster.start_consumer("g", "t", **options)
        await producer.send("t", b"later")
        await anyio.sleep(15)
        assert later.bodies == [b"later"] * 8
        await set_group(cluster, max_attempts=-1)
        await producer.send("t", b"own")
        await anyio.sleep(15)
        assert later.bodies[8:] == [b"own"] * 6
        broker = cluster.brokers["broker-a"].running.broker
        assert broker.store.max_offset(broker.topics.table.existing("%DLQ%g").topic_id, 0) == 4

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("kind", ["pull", "pop"])
def test_failed_messages_wait_for_the_delays_of_the_group_unless_their_consumer_sets_one(
    simulate: Simulate, kind: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        loop, tried_at = cluster.simulation.loop, list[float]()

        async def fails(message: MessageExt) -> None:
            tried_at.append(loop.time())
            raise ValueError("never")

        for own_ms, delays_s in ((None, [0.5, 2.0, 2.0]), (100, [0.1, 0.1, 0.1])):
            tried_at.clear()
            consumer = await cluster.start_consumer(
                "g", "t", work=fails, retry_delay_ms=own_ms, max_attempts=3, **KINDS[kind]
            )
            await set_group(cluster, retry_delays_ms=[500, 2_000])
            await producer.send("t", b"x")
            await anyio.sleep(15)
            waited = [later - earlier for earlier, later in pairwise(tried_at)]
            assert waited == pytest.approx(delays_s, abs=0.1)
            await consumer.stop()

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("slow_s", [0.0, 0.4])
def test_a_group_in_order_receives_each_queue_in_order_although_consumers_fail_and_are_killed(
    simulate: Simulate, slow_s: float
) -> None:
    """A message is delivered again until it is acknowledged, and no later one of its queue before that."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        await set_group(cluster, fifo=True, create=True)
        done: dict[MessageQueue, list[int]] = {}
        killed = await cluster.start_popper("g", "t")
        others = [await cluster.start_popper("g", "t") for _ in range(2)]
        await producer.send_many("t", 60)

        async def work(popper: SimulatedPopConsumer, n_fails: int) -> None:
            while True:
                for n, message in enumerate(await popper.receive(5, invisible_s=2, wait_s=5)):
                    await anyio.sleep(slow_s)
                    if n == n_fails and message.attempts == 1:
                        break
                    if not await popper.ack([message]):
                        done.setdefault(message.queue, []).append(message.offset)

        async with anyio.create_task_group() as tasks:
            for n, popper in enumerate(others):
                tasks.start_soon(work, popper, 2 + n)
            assert await killed.receive(5, invisible_s=2, wait_s=5, renew=True)
            await anyio.sleep(5)
            await killed.crash()
            await anyio.sleep(240)
            tasks.cancel_scope.cancel()
        assert sum(map(len, done.values())) == 60
        assert all(offsets == sorted(offsets) for offsets in done.values())

    simulate(scenario, brokers=1)


def test_members_share_failed_messages_over_the_retry_queues_and_fewer_of_them_hide_none(simulate: Simulate) -> None:
    async def fails_once(message: MessageExt) -> None:
        if not message.times_delivered:
            raise ValueError("not now")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"work": fails_once, "retry_delay_ms": 60_000}
        members = [await cluster.start_consumer("g", "t", **options) for _ in range(4)]
        await set_group(cluster, retry_queues=4)
        producer = await cluster.start_producer()
        await producer.send_many("t", 20)
        await anyio.sleep(1)
        assert (await set_group(cluster, retry_queues=1))["broker-a"].retry_queues == 1
        await producer.send_many("t", 20, first=20)
        await anyio.sleep(120)
        again = [delivery for member in members for delivery in member.deliveries if delivery.times_delivered]
        assert sorted(delivery.body for delivery in again) == sorted(b"%d" % n for n in range(40))
        by_queue = [delivery.message.queue.queue_id for delivery in again]
        assert [by_queue.count(n) for n in range(4)] == [25, 5, 5, 5]
        assert len({delivery.client_id for delivery in again}) == 4

    simulate(scenario, brokers=1)


def test_settings_outlive_the_broker_and_end_with_the_group(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        wanted = GroupSettings(consume=False, broadcast=False, retry_queues=3, max_attempts=2)
        changes = {"consume": False, "broadcast": False, "retry_queues": 3, "max_attempts": 2}
        with pytest.raises(GroupNotExist, match=r"no broker knows group 'g'.*say so: --create"):
            await set_group(cluster, **changes)
        assert await set_group(cluster, **changes, create=True) == {"broker-a": wanted}
        await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(5)
        assert (await shown(cluster)).settings == {"broker-a": wanted}
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                assert [each.group for each in await admin.groups()] == ["g"]
                await admin.delete_group("g")
        assert await set_group(cluster, broadcast=True, create=True) == {"broker-a": DEFAULT_SETTINGS}

    simulate(scenario, brokers=1)


def test_one_change_is_one_cause_on_all_brokers_and_no_change_is_not_an_event(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for _ in range(2):
            await set_group(cluster, max_attempts=3, create=True)
        reported = [event for event in cluster.events if event.kind == EventKind.GROUP_SETTINGS_CHANGED]
        assert [(event.broker, event.group) for event in reported] == [("broker-a", "g"), ("broker-b", "g")]
        assert {event.detail for event in reported} == {
            "consume=on broadcast=on retry_queues=1 max_attempts=3 fifo=off retry_delays=default"
        }
        assert {event.cause for event in reported} == {reported[0].id}

    simulate(scenario, brokers=2)


def test_a_broker_that_is_away_is_named_and_what_it_lacks_is_shown(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_group(cluster, max_attempts=3, create=True)
        fault = cluster.simulation.network.stall("broker-a")
        with pytest.raises(NetworkError, match="group 'g' was set on broker-b, and not on broker-a: "):
            await set_group(cluster, consume=False)
        fault.heal()
        assert (await shown(cluster)).switched_off == ("broker-b",)
        await set_group(cluster, consume=False)
        assert (await shown(cluster)).switched_off == ("broker-a", "broker-b")

    simulate(scenario, brokers=2)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "nothing to set: name consume, broadcast, retry_queues, max_attempts, fifo or retry_delays_ms"),
        ({"retry_queues": 0}, "retry_queues must be 1 to 1024, got 0; for no retries set max_attempts to 0"),
        ({"max_attempts": 65_001}, "max_attempts must be 0 to 65000, or -1 for the option of each member; got 65001"),
        ({"fifo": 1}, "fifo must be True or False, got 1"),
        ({"retry_delays_ms": 5}, "retry_delays_ms must be a list, got 5"),
        ({"retry_delays_ms": [1] * 33}, "retry_delays_ms must be at most 32 delays, got 33"),
    ],
)
def test_what_cannot_be_set_is_refused_before_any_broker_has_it(
    simulate: Simulate, changes: dict[str, Any], why: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(InvalidParameter, match=why):
            await set_group(cluster, **changes, create=True)

    simulate(scenario, brokers=1)
