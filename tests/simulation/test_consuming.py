"""What a listener gets, when, how much of it at a time, and from where on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from model.errors import ConfigError, IllegalOperation
from model.heartbeat import ConsumeFrom
from model.limits import PULL_BATCH, ROUTE_POLL_INTERVAL_S
from model.message import MessageExt
from model.names import is_retry_topic
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def numbers(consumer: SimulatedConsumer) -> list[int]:
    return sorted(int(body) for body in consumer.bodies)


def committed(cluster: SimulatedCluster, group: str = "g", topic: str = "t") -> int:
    """How far a group has committed, over all queues of a topic."""
    offsets = [
        row for server in cluster.brokers.values() for row in server.running.broker.leases.offsets.of_group(group)
    ]
    return sum(offset for at, _, offset in offsets if at == topic)


def unfinished(consumer: SimulatedConsumer) -> dict[str, int]:
    """What the consumer has in memory of its queues of user topics: their longest, their largest, their widest."""
    share = consumer.consumer._ownership
    assert share is not None
    queues = [owned.process_queue for queue, owned in share.owned.items() if not is_retry_topic(queue.topic)]
    return {
        "count": max(queue.count for queue in queues),
        "bytes": max(queue.size_bytes for queue in queues),
        "span": max(queue.span for queue in queues),
    }


# ---------------------------------------------------------------------------------------------------- where it begins


@pytest.mark.parametrize(
    ("consume_from", "expected"),
    [
        (ConsumeFrom.FIRST_OFFSET, range(30)),
        (ConsumeFrom.LAST_OFFSET, range(20, 30)),
        (ConsumeFrom.TIMESTAMP, range(10, 30)),
    ],
)
def test_a_new_group_starts_where_it_said(simulate: Simulate, consume_from: ConsumeFrom, expected: range) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(10)
        from_ms = cluster.simulation.clock_ms()
        await producer.send_many("t", 10, first=10)
        await anyio.sleep(10)
        consumer = await cluster.start_consumer("g", "t", consume_from=consume_from, consume_timestamp_ms=from_ms)
        await producer.send_many("t", 10, first=20)
        await anyio.sleep(1)
        assert numbers(consumer) == list(expected)

    simulate(scenario)


def test_a_timestamp_that_is_missing_is_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(ConfigError, match="needs consume_timestamp_ms"):
            cluster.make_consumer("g", consume_from=ConsumeFrom.TIMESTAMP)

    simulate(scenario)


def test_last_skips_nothing_of_queues_that_are_created_later(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()  # sees the new queues at once, and the consumer with its next poll
        await producer.send_many("t", 40)
        await anyio.sleep(ROUTE_POLL_INTERVAL_S + 1)
        assert numbers(consumer) == list(range(40))

    simulate(scenario)


def test_last_means_the_same_moment_on_a_broker_that_sees_the_group_later(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", brokers=["broker-a"])
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        await producer.send_many("t", 40)
        await anyio.sleep(ROUTE_POLL_INTERVAL_S + 1)
        assert numbers(consumer) == list(range(40))

    simulate(scenario)


# ---------------------------------------------------------------------------------------------------------------- tags


def test_only_the_wanted_tags_come_and_the_others_do_not_hold_the_commit_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression="a || b")
        producer = await cluster.start_producer()
        for number, tags in enumerate(["a", "b", "c", ""] * 25):
            await producer.send("t", b"%d" % number, tags=tags)
        await anyio.sleep(6)
        assert numbers(consumer) == [n for n in range(100) if n % 4 < 2]
        assert committed(cluster) == 100

    simulate(scenario, brokers=1)


def test_tags_of_one_hash_are_distinguished(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression="Aa")
        producer = await cluster.start_producer()
        await producer.send("t", b"1", tags="BB")
        await producer.send("t", b"2", tags="Aa")
        await anyio.sleep(6)
        assert numbers(consumer) == [2]
        assert committed(cluster) == 2

    simulate(scenario, brokers=1)


@pytest.mark.parametrize(
    ("expression", "expected"), [("b", [1, 2, 3, 5]), ("a || b", [1, 2, 3, 4, 5]), ("*", [1, 2, 3, 4, 5])]
)
def test_a_changed_expression_counts_at_once_although_the_broker_holds_a_pull_for_the_old_one(
    simulate: Simulate, expression: str, expected: list[int]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression="a")
        producer = await cluster.start_producer()
        await producer.send("t", b"1", tags="a")
        await anyio.sleep(1)
        await consumer.subscribe("t", expression)
        for number, tags in enumerate("bbab", 2):
            await producer.send("t", b"%d" % number, tags=tags)
            await anyio.sleep(0.1)
        assert numbers(consumer) == expected

    simulate(scenario, brokers=1)


def test_a_pull_that_was_answered_for_other_tags_passes_over_nothing_that_is_wanted_now(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression="a")
        producer = await cluster.start_producer()
        await anyio.sleep(1)
        for number, tags in enumerate("bba", 1):
            await producer.send("t", b"%d" % number, tags=tags)
        # The answer is on its way.
        await consumer.subscribe("t", "a || b")
        await anyio.sleep(2)
        assert numbers(consumer) == [1, 2, 3]

    simulate(scenario, brokers=1)


# -------------------------------------------------------------------------------------------------------- flow control


@pytest.mark.parametrize(
    ("options", "what", "limit"),
    [
        ({"max_queue_count": 50}, "count", 50 + PULL_BATCH),
        ({"max_queue_bytes": 5_000}, "bytes", 5_000 + PULL_BATCH * 100),
    ],
)
def test_a_queue_whose_listener_is_stuck_is_not_pulled_beyond_its_limit_and_goes_on_later(
    simulate: Simulate, options: dict[str, Any], what: str, limit: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        free = anyio.Event()

        async def stuck(message: MessageExt) -> None:
            await free.wait()

        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=stuck, **options)
        producer = await cluster.start_producer()
        for number in range(500):
            await producer.send("t", b"%0100d" % number)
        await anyio.sleep(5)
        assert 0 < unfinished(consumer)[what] <= limit
        free.set()
        await anyio.sleep(1)
        assert numbers(consumer) == list(range(500))

    simulate(scenario, brokers=1)


def test_one_stuck_message_lets_the_rest_run_only_as_far_as_the_span(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        free = anyio.Event()

        async def stuck_on_the_first(message: MessageExt) -> None:
            if message.body == b"0":
                await free.wait()

        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=stuck_on_the_first, max_queue_span=100)
        producer = await cluster.start_producer()
        await producer.send_many("t", 500)
        await anyio.sleep(10)
        assert 100 <= max(numbers(consumer)) <= 100 + PULL_BATCH
        assert committed(cluster) == 0, "what comes after it would come again"
        free.set()
        await anyio.sleep(6)
        assert numbers(consumer) == list(range(500))
        assert committed(cluster) == 500

    simulate(scenario, brokers=1)


def test_one_stuck_queue_does_not_hold_up_the_others(simulate: Simulate) -> None:
    async def stuck_on_queue_zero(message: MessageExt) -> None:
        if message.queue.queue_id == 0:
            await anyio.sleep_forever()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        options: dict[str, Any] = {"max_queue_count": 3, "pull_batch": 1, "max_workers": 10, "shutdown_grace_s": 0}
        consumer = await cluster.start_consumer("g", "t", work=stuck_on_queue_zero, **options)
        producer = await cluster.start_producer()
        await producer.send_many("t", 400)
        await anyio.sleep(1)
        assert len([d for d in consumer.deliveries if d.finished]) == 300

    simulate(scenario, brokers=1)


# ------------------------------------------------------------------------------------------------------------ listeners


def test_a_plain_function_is_a_listener_too(simulate: Simulate) -> None:
    got: list[bytes] = []

    def plain(messages: Sequence[MessageExt]) -> None:
        assert threading.current_thread() is threading.main_thread(), "the simulation has no others"
        got.extend(message.body for message in messages)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.start_consumer("g", "t", listener=plain)
        producer = await cluster.start_producer()
        await producer.send_many("t", 10)
        await anyio.sleep(6)
        assert sorted(int(body) for body in got) == list(range(10))
        assert committed(cluster) == 10

    simulate(scenario)


def test_a_batch_is_of_one_queue_in_offset_order_and_no_longer_than_asked_for(simulate: Simulate) -> None:
    batches: list[list[MessageExt]] = []

    async def listener(messages: Sequence[MessageExt]) -> None:
        batches.append(list(messages))
        await anyio.sleep(0.5)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t", listener=listener, consume_batch=7)
        producer = await cluster.start_producer()
        await producer.send_many("t", 100)
        await anyio.sleep(10)
        assert sum(len(batch) for batch in batches) == 100
        assert max(len(batch) for batch in batches) == 7
        for batch in batches:
            assert len({message.queue for message in batch}) == 1
            offsets = [message.offset for message in batch]
            assert offsets == sorted(offsets)

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("max_workers", [1, 3])
def test_no_more_batches_than_workers_are_with_listeners_and_no_fewer(simulate: Simulate, max_workers: int) -> None:
    now = most = 0

    async def counted(message: MessageExt) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.sleep(0.1)
        now -= 1

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", work=counted, max_workers=max_workers)
        producer = await cluster.start_producer()
        await producer.send_many("t", 60)
        await anyio.sleep(60 * 0.1 / max_workers + 1)
        assert numbers(consumer) == list(range(60))
        assert most == max_workers

    simulate(scenario)


def test_one_worker_hands_out_each_queue_in_order(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", max_workers=1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 200)
        await anyio.sleep(1)
        seen: dict[Any, int] = {}
        for delivery in consumer.deliveries:
            assert delivery.message.offset == seen.get(delivery.message.queue, -1) + 1
            seen[delivery.message.queue] = delivery.message.offset

    simulate(scenario)


def test_a_listener_that_shuts_its_own_consumer_down_is_reported_to_do_it_elsewhere(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        last = anyio.Event()

        async def last_one(message: MessageExt) -> None:
            with pytest.raises(IllegalOperation, match="set an event there"):
                await consumer.consumer.shutdown()
            last.set()

        consumer = await cluster.start_consumer("g", "t", work=last_one)
        producer = await cluster.start_producer()
        await producer.send("t", b"1")
        await last.wait()
        await consumer.stop()
        assert committed(cluster) == 1

    simulate(scenario, brokers=1)
