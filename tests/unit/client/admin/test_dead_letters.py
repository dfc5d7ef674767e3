from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.admin.dead_letters import RESEND_TOGETHER, DeadLetter, ResendTo
from model.errors import GroupNotExist, MessageIllegal, NetworkError, TopicNotExist
from model.message import Message, MessageExt, SendResult
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


class Repair:
    """A listener that fails on everything until it is repaired."""

    def __init__(self) -> None:
        self.done = False

    async def work(self, message: MessageExt) -> None:
        if not self.done:
            raise ValueError("not repaired yet")


async def dying(cluster: SimulatedCluster, n: int) -> tuple[Repair, SimulatedConsumer, list[str]]:
    """A group on which `n` messages have died, over two brokers; returns their ids, too."""
    await cluster.create_topic("t", queues=2)
    repair = Repair()
    options: dict[str, Any] = {"retry_delay_ms": 100, "max_attempts": 1}
    consumer = await cluster.start_consumer("g", "t", work=repair.work, **options)
    await cluster.wait_converged(2)
    producer = await cluster.start_producer()
    await anyio.sleep(3)
    with cluster.simulation.on_host(producer.host):
        sent: list[SendResult] = [
            await producer.producer.send(Message("t", b"%d" % number, ("k", "l"), "red", {"number": str(number)}))
            for number in range(n)
        ]
    await anyio.sleep(5)
    consumer.deliveries.clear()
    return repair, consumer, [result.message_id for result in sent]


async def all_letters(admin: Admin) -> list[DeadLetter]:
    return [dead_letter async for dead_letter in admin.dead_letters("g").letters()]


def run(scenario: Callable[[SimulatedCluster, Admin], Awaitable[None]], data_dir: Path, **options: Any) -> None:
    administer(scenario, data_dir, **options)


def test_letters_are_counted_and_are_what_their_producer_sent(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        before_ms = cluster.simulation.clock_ms()
        _, _, ids = await dying(cluster, 10)
        queues = await admin.dead_letters("g").queues()
        assert [str(queue.queue) for queue in queues] == ["%DLQ%g@broker-a:0", "%DLQ%g@broker-b:0"]
        assert sum(queue.letters for queue in queues) == 10
        for queue in queues:
            assert queue.oldest_ms is not None
            assert queue.newest_ms is not None
            assert before_ms < queue.oldest_ms <= queue.newest_ms < cluster.simulation.clock_ms()
            assert queue.resent == 0
        letters = await all_letters(admin)
        assert sorted(dead_letter.message.message_id for dead_letter in letters) == sorted(ids)
        for message, resent, _ in letters:
            assert (message.topic, message.tags, tuple(message.keys), resent) == ("t", "red", ("k", "l"), False)
            assert message.properties == {"number": message.body.decode()}
            assert message.times_delivered == 1

    run(scenario, tmp_path)


def test_a_letter_that_is_sent_again_comes_to_its_group_alone_as_it_was_at_first(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        repair, consumer, ids = await dying(cluster, 4)
        other = await cluster.start_consumer("other", "t")
        await anyio.sleep(1)
        [dead_letter] = (await admin.dead_letters("g").find([ids[2]]))[ids[2]]
        repair.done = True
        await admin.dead_letters("g").resend([dead_letter])
        await anyio.sleep(1)
        [delivery] = consumer.deliveries
        message = delivery.message
        assert (message.message_id, message.topic, message.body) == (ids[2], "t", b"2")
        assert (message.tags, tuple(message.keys), message.properties) == ("red", ("k", "l"), {"number": "2"})
        assert (message.times_delivered, message.born_ms) == (0, dead_letter.message.born_ms)
        assert other.deliveries == []

    run(scenario, tmp_path)


def test_a_letter_that_is_sent_to_its_topic_comes_to_every_group(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        repair, consumer, _ = await dying(cluster, 6)
        other = await cluster.start_consumer("other", "t")
        await anyio.sleep(1)
        repair.done = True
        assert await admin.dead_letters("g").resend_all(ResendTo.TOPIC) == 6
        await anyio.sleep(1)
        assert sorted(other.bodies) == sorted(consumer.bodies) == [b"%d" % n for n in range(6)]

    run(scenario, tmp_path)


def test_what_was_sent_again_is_not_sent_again_by_the_next_who_sends_all(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        repair, consumer, ids = await dying(cluster, 10)
        repair.done = True
        dead = admin.dead_letters("g")
        found = await dead.find([ids[4]])
        await dead.resend(found[ids[4]])
        assert await dead.resend_all() == 9
        assert await dead.resend_all() == 0
        await anyio.sleep(1)
        assert sorted(consumer.bodies) == [b"%d" % n for n in range(10)]
        assert sum(queue.resent for queue in await dead.queues()) == 10
        assert all(dead_letter.resent for dead_letter in await all_letters(admin))
        assert await dead.find([ids[4]]) == {ids[4]: []}
        assert len((await dead.find([ids[4]], include_resent=True))[ids[4]]) == 1

    run(scenario, tmp_path)


def test_to_send_all_again_ends_although_they_die_again_and_they_may_be_sent_once_more(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        _, consumer, ids = await dying(cluster, 5)
        dead = admin.dead_letters("g")
        assert await dead.resend_all() == 5
        await anyio.sleep(5)
        assert len(consumer.deliveries) == 10, "each had its two attempts again"
        queues = await dead.queues()
        assert (sum(queue.letters for queue in queues), sum(queue.resent for queue in queues)) == (10, 5)
        [dead_letter] = (await dead.find(ids[:1]))[ids[0]]
        assert not dead_letter.resent
        assert await dead.resend_all() == 5

    run(scenario, tmp_path)


def test_a_command_that_dies_halfway_loses_nothing_and_repeats_no_more_than_one_batch(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        n = 3 * RESEND_TOGETHER
        repair, consumer, ids = await dying(cluster, n)
        repair.done = True
        sent: list[int] = []
        with anyio.CancelScope() as scope:

            def stop_at_the_second(done: int) -> None:
                sent.append(done)
                if done == 2 * RESEND_TOGETHER:
                    scope.cancel()

            await admin.dead_letters("g").resend_all(progress=stop_at_the_second)
        assert sent == [RESEND_TOGETHER, 2 * RESEND_TOGETHER]
        assert await admin.dead_letters("g").resend_all() <= 2 * RESEND_TOGETHER
        await anyio.sleep(5)
        delivered = [delivery.message.message_id for delivery in consumer.deliveries]
        assert set(delivered) == set(ids)
        assert len(delivered) - n <= RESEND_TOGETHER

    run(scenario, tmp_path)


def test_what_cannot_be_done_is_notified(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(GroupNotExist, match="no broker knows group 'nobody'"):
            await admin.dead_letters("nobody").queues()
        await cluster.start_consumer("healthy", "warm-up")
        assert await admin.dead_letters("healthy").queues() == ()
        await dying(cluster, 8)  # on both brokers
        await admin.delete_topic("t")
        with pytest.raises(TopicNotExist, match="topic 't' is gone, so nothing was sent"):
            await admin.dead_letters("g").resend_all(ResendTo.TOPIC)
        await admin.delete_topic("%RETRY%g")
        with pytest.raises(TopicNotExist, match="start a consumer of the group first"):
            await admin.dead_letters("g").resend_all()
        assert not any(dead_letter.resent for dead_letter in await all_letters(admin))
        with cluster.simulation.network.stall("broker-b"), pytest.raises(NetworkError):
            await admin.dead_letters("g").queues()

    run(scenario, tmp_path)


def test_a_payload_that_is_not_a_message_is_shown_as_bytes_and_never_sent_and_stops_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        repair, _, ids = await dying(cluster, 4)
        queue = (await all_letters(admin))[0].message.queue
        header = {"topic": queue.topic, "queue_id": 0, "tag_hash": 0}
        (master,) = [broker.addresses[0] for broker in await admin.brokers() if broker.broker_name == queue.broker_name]
        for payload in (b"\xc1", b"hello"):
            await admin._cluster.remoting.request(master, RequestCode.SEND_MESSAGE, header, payload)
        letters = await all_letters(admin)
        assert sorted(
            dead_letter.message.message_id for dead_letter in letters if not dead_letter.undecodable
        ) == sorted(ids)
        kept = [dead_letter for dead_letter in letters if dead_letter.undecodable]
        assert [dead_letter.message.body for dead_letter in kept] == [b"\xc1", b"hello"]
        assert {(dead_letter.message.topic, dead_letter.message.message_id) for dead_letter in kept} == {
            (queue.topic, "")
        }
        admin_of = admin.dead_letters("g")
        (of_queue,) = [each for each in await admin_of.queues() if each.queue == queue]
        assert of_queue.newest_ms == kept[-1].message.stored_ms
        assert await admin_of.find([""]) == {"": []}
        with pytest.raises(MessageIllegal, match=r"\+\d+ is not a message, so it cannot be sent again"):
            await admin_of.resend(letters)
        assert [dead_letter.resent for dead_letter in await all_letters(admin)] == [False] * 6
        repair.done = True
        assert await admin_of.resend_all() == 4
        assert admin_of.passed_over == 2

    run(scenario, tmp_path)
