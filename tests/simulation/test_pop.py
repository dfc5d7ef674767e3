"""Consumers that share single messages: all of them work, none holds another up, and nothing is lost or comes twice.

`rlab sim --kind pop --seeds 500` runs many programmes of faults.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import pairwise
from typing import Any

import anyio
import pytest

from client.listeners.listener import ConsumeResult
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.names import dlq_topic
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

POP: dict[str, Any] = {"mode": "pop", "invisible_s": 3.0, "consume_from": ConsumeFrom.FIRST_OFFSET}


def bodies(consumers: list[SimulatedConsumer]) -> Counter[bytes]:
    return Counter(body for consumer in consumers for body in consumer.bodies)


def numbers(n: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(n))


# ----------------------------------------------------------------------------------------------------------- many seeds


# ------------------------------------------------------------------------------------------------------- push consumers


def test_more_consumers_than_queues_all_get_work(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumers = [await cluster.start_consumer("g", "t", **POP) for _ in range(8)]
        producer = await cluster.start_producer()
        await producer.send_many("t", 200)
        await anyio.sleep(1)
        assert bodies(consumers) == numbers(200)
        assert min(len(consumer.bodies) for consumer in consumers) > 10

    simulate(scenario)


def test_a_slow_consumer_slows_no_one_and_what_it_works_on_long_stays_its_own(simulate: Simulate) -> None:
    async def slow(message: MessageExt) -> None:
        await anyio.sleep(20)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        slow_one = await cluster.start_consumer("g", "t", work=slow, max_workers=1, max_unacked=1, **POP)
        quick = [await cluster.start_consumer("g", "t", **POP) for _ in range(2)]
        producer = await cluster.start_producer()
        await producer.send_many("t", 100)
        await anyio.sleep(60)
        assert bodies([slow_one, *quick]) == numbers(100)
        assert slow_one.consumer.late_results == 0
        assert all(delivery.time_s < 1 for one in quick for delivery in one.deliveries)

    simulate(scenario)


def test_what_a_killed_consumer_had_is_redelivered_when_its_time_is_over(simulate: Simulate) -> None:
    async def never(message: MessageExt) -> None:
        await anyio.sleep_forever()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        dies = await cluster.start_consumer("g", "t", work=never, **POP)
        await producer.send_many("t", 10)
        await anyio.sleep(2.9)  # renewed at 2
        broker_runs = await cluster.start_consumer("g", "t", **POP)
        died_at = cluster.simulation.loop.time()
        await dies.crash()
        await anyio.sleep(5)
        assert bodies([broker_runs]) == numbers(10)
        assert all(delivery.time_s <= died_at + 3.1 for delivery in broker_runs.deliveries)
        assert {delivery.times_delivered for delivery in broker_runs.deliveries} == {1}

    simulate(scenario)


def test_a_message_that_fails_is_redelivered_from_its_own_queue_and_ends_as_a_dead_letter(simulate: Simulate) -> None:
    async def fails_on_three(message: MessageExt) -> ConsumeResult | None:
        return ConsumeResult.RECONSUME_LATER if message.body == b"3" else None

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer(
            "g", "t", work=fails_on_three, retry_delay_ms=2000, max_attempts=2, **POP
        )
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(20)
        failed = [delivery for delivery in consumer.deliveries if delivery.body == b"3"]
        assert [delivery.times_delivered for delivery in failed] == [0, 1, 2]
        assert {delivery.message.queue.topic for delivery in failed} == {"t"}
        waits = [later.time_s - sooner.time_s for sooner, later in pairwise(failed)]
        assert waits == pytest.approx([2, 2], abs=0.05)
        broker = cluster.brokers["broker-a"].running.broker
        assert broker.store.max_offset(broker.topics.table.existing(dlq_topic("g")).topic_id, 0) == 1
        assert broker.leases.offsets.read("g", "t", 0) == 10

    simulate(scenario, brokers=1)


def test_a_shutdown_finishes_what_listeners_have_and_gives_the_rest_to_the_others_at_once(simulate: Simulate) -> None:
    async def takes_a_second(message: MessageExt) -> None:
        await anyio.sleep(1)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        options = {**POP, "invisible_s": 60.0}
        leaves = await cluster.start_consumer("g", "t", work=takes_a_second, max_workers=3, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 50)
        stays = await cluster.start_consumer("g", "t", **options)
        await anyio.sleep(0.5)
        started_at = cluster.simulation.loop.time()
        await leaves.stop()
        await anyio.sleep(0.1)
        assert len(leaves.bodies) == 3
        assert bodies([leaves, stays]) == numbers(50)
        assert max(delivery.time_s for delivery in stays.deliveries) < started_at + 0.1

    simulate(scenario)


def test_in_order_a_queue_goes_on_only_when_the_message_before_is_done(simulate: Simulate) -> None:
    async def fails_now_and_then(message: MessageExt) -> ConsumeResult | None:
        await anyio.sleep(0.01)
        if int(message.body) % 7 == 3 and message.times_delivered < 2:
            return ConsumeResult.RECONSUME_LATER
        return None

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        options = {**POP, "order": "queue", "suspend_s": 0.1}
        consumers = [await cluster.start_consumer("g", "t", work=fails_now_and_then, **options) for _ in range(3)]
        producer = await cluster.start_producer()
        await producer.send_many("t", 60)
        await anyio.sleep(30)
        done: dict[Any, list[tuple[float, int]]] = {}
        for consumer in consumers:
            for delivery in consumer.deliveries:
                if delivery.finished:
                    done.setdefault(delivery.message.queue, []).append((delivery.time_s, delivery.message.offset))
        assert sum(map(len, done.values())) == 60
        for each in done.values():
            offsets = [offset for _, offset in sorted(each)]
            assert offsets == sorted(offsets)

    simulate(scenario, brokers=1)


def test_a_message_that_fails_for_good_in_order_becomes_a_dead_letter_and_its_queue_goes_on(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_on_three(message: MessageExt) -> ConsumeResult | None:
        return ConsumeResult.RECONSUME_LATER if message.body == b"3" else None

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options = {**POP, "order": "queue", "suspend_s": 0.1, "max_attempts": 2}
        consumer = await cluster.start_consumer("g", "t", work=fails_on_three, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 6)
        await anyio.sleep(5)
        assert consumer.bodies == [b"0", b"1", b"2", b"3", b"3", b"3", b"4", b"5"]
        broker = cluster.brokers["broker-a"].running.broker
        assert broker.store.max_offset(broker.topics.table.existing(dlq_topic("g")).topic_id, 0) == 1
        assert broker.leases.offsets.read("g", "t", 0) == 6

    simulate(scenario, brokers=1)
    assert caplog.text.count("failed 3 times and is a dead letter now") == 1


def test_only_messages_with_a_wanted_tag_are_handed_out_and_the_others_are_done_with(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression="Aa", **POP)
        producer = await cluster.start_producer()
        for n, tags in enumerate(("Aa", "BB", "other", "")):  # the first two share a hash
            await producer.send("t", b"%d" % n, tags=tags)
        await anyio.sleep(1)
        assert consumer.bodies == [b"0"]
        assert cluster.brokers["broker-a"].running.broker.leases.offsets.read("g", "t", 0) == 4

    simulate(scenario, brokers=1)


def test_a_result_that_comes_after_the_handle_died_is_ignored_and_counted(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def takes_ten(message: MessageExt) -> None:
        await anyio.sleep(10)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        slow = await cluster.start_consumer("g", "t", work=takes_ten, **POP)
        producer = await cluster.start_producer()
        await producer.send_many("t", 1)
        await anyio.sleep(1)
        other = await cluster.start_consumer("g", "t", **POP)
        with cluster.simulation.network.partition(slow.host, "broker-a"):
            await anyio.sleep(8)
        await anyio.sleep(20)
        assert (slow.bodies, other.bodies) == ([b"0"], [b"0"])
        assert slow.consumer.late_results == 1

    caplog.set_level(logging.CRITICAL)
    simulate(scenario, brokers=1)


def test_nothing_acknowledged_is_redelivered_from_a_broker_that_was_killed_and_started_again(
    simulate: Simulate,
) -> None:
    async def slow_for_some(message: MessageExt) -> None:
        if int(message.body) % 10 == 0:
            await anyio.sleep(6)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumers = [await cluster.start_consumer("g", "t", work=slow_for_some, **POP) for _ in range(2)]
        producer = await cluster.start_producer()
        await producer.send_many("t", 100)
        await anyio.sleep(1)
        before = bodies(consumers)
        await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(30)
        after = bodies(consumers)
        assert set(after) == set(numbers(100))
        assert not [body for body in after if int(body) % 10 and after[body] > before[body] == 1]

    simulate(scenario, brokers=1)
