"""Old messages go, those that somebody needs stay, and whoever misses some hears of it."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

SEGMENT_BYTES = 5_000
LIMIT = 60_000
BODY_BYTES = 200
FIRST: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET}


def options(**limits: int) -> dict[str, Any]:
    return {
        "brokers": 1,
        "store": StoreOptions(segment_bytes=SEGMENT_BYTES),
        "retention": RetentionOptions(**{"retain_ms": 30_000, **limits}),
    }


async def produce(cluster: SimulatedCluster, count: int, first: int) -> None:
    """Send messages for about 0.2 s each, numbered from `first`."""
    producer = cluster.producers[0] if cluster.producers else await cluster.start_producer()
    for number in range(first, first + count):
        await producer.send("t", b"%d " % number + bytes(BODY_BYTES))
        await anyio.sleep(0.2)


def numbers(consumer: SimulatedConsumer) -> list[int]:
    return sorted(int(body.split()[0]) for body in consumer.bodies)


def ranges(cluster: SimulatedCluster) -> list[tuple[int, int]]:
    """(oldest offset, end) of each queue of topic t."""
    broker = cluster.brokers["broker-a"].running.broker
    topic_id = broker.topics.table.existing("t").topic_id
    return [(broker.store.min_offset(topic_id, q), broker.store.max_offset(topic_id, q)) for q in range(2)]


def log_bytes(cluster: SimulatedCluster) -> int:
    spans = cluster.brokers["broker-a"].running.broker.store.spans()
    return spans[-1].end_position - spans[0].base_position


async def restart(cluster: SimulatedCluster) -> None:
    await cluster.brokers["broker-a"].stop()
    await cluster.brokers["broker-a"].start()


def test_a_slow_group_holds_back_what_it_needs_and_misses_nothing(simulate: Simulate) -> None:
    async def slowly(message: MessageExt) -> None:
        await anyio.sleep(1)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        fast = await cluster.start_consumer("fast", "t", **FIRST)
        slow = await cluster.start_consumer("slow", "t", work=slowly, max_workers=1, **FIRST)
        await produce(cluster, 150, 0)
        await restart(cluster)
        await produce(cluster, 150, 150)
        # By now half of the log is older than its time, and the slow group is still in it.
        low = sum(low for low, _ in ranges(cluster))
        assert 0 < low <= len(slow.bodies) < 150
        await anyio.sleep(400)
        assert numbers(slow) == numbers(fast) == list(range(300))
        assert sum(low for low, _ in ranges(cluster)) > 250
        assert not cluster.events_of(EventKind.OFFSET_MOVED)
        assert {event.detail for event in cluster.events_of(EventKind.MESSAGES_DELETED)} == {"age"}

    simulate(scenario, **options())


def test_beyond_the_hard_limit_a_group_that_was_away_goes_on_from_what_is_left_and_everyone_sees_it(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        fast = await cluster.start_consumer("fast", "t", **FIRST)
        away = await cluster.start_consumer("away", "t", **FIRST)
        await produce(cluster, 50, 0)
        await away.stop()
        assert numbers(away) == list(range(50))
        await produce(cluster, 300, 50)
        await restart(cluster)
        await produce(cluster, 300, 350)
        await anyio.sleep(10)
        assert log_bytes(cluster) <= LIMIT
        assert numbers(fast) == list(range(650))
        deletions = cluster.events_of(EventKind.MESSAGES_DELETED)
        assert "hard limit" in {event.detail for event in deletions}
        lows = [low for low, _ in ranges(cluster)]

        with caplog.at_level(logging.WARNING):
            back = await cluster.start_consumer("away", "t", **FIRST)
            await anyio.sleep(30)
        missed = sum(lows) - 50
        assert missed > 100
        # What it gets is exactly what is left, and what it does not get is exactly what is said to be skipped.
        assert len(numbers(back)) == len(set(numbers(back))) == 600 - missed
        moved = cluster.events_of(EventKind.OFFSET_MOVED, group="away")
        assert {event.queue_id: event.offset for event in moved} == {0: lows[0], 1: lows[1]}
        assert len(moved) == 2
        assert sum(event.n for event in moved) == missed
        assert {event.cause for event in moved} <= {event.cause for event in deletions}
        assert "group 'away' is behind the deleted messages on t:0" in caplog.text
        assert "messages were deleted unread" in caplog.text

    simulate(scenario, **options(retain_bytes_max=LIMIT))


def test_a_failed_message_that_waits_longer_than_everything_is_kept_still_is_redelivered(simulate: Simulate) -> None:
    async def fails_once(message: MessageExt) -> None:
        if message.times_delivered == 0 and message.body.startswith(b"0 "):
            raise ValueError("not yet")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer("g", "t", work=fails_once, retry_delay_ms=200_000, **FIRST)
        await produce(cluster, 600, 0)
        assert sum(low for low, _ in ranges(cluster)) > 400, "its copy at the end of the log waits"
        assert log_bytes(cluster) <= LIMIT
        await restart(cluster)
        await anyio.sleep(200)
        assert numbers(consumer) == [0, *range(600)]
        await anyio.sleep(20)
        assert log_bytes(cluster) <= LIMIT

    simulate(scenario, **options(retain_bytes_max=LIMIT))
