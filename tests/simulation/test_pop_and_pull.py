"""A group whose members pop and pull in turn: queues change hands without loss, and nothing done comes again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest

from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

FIRST: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET}
POP: dict[str, Any] = {"mode": "pop", "invisible_s": 3.0, **FIRST}
N = 200


async def brief(message: MessageExt) -> None:
    await anyio.sleep(0.05)


def test_queues_go_from_pop_to_pull_and_back_under_load_and_every_message_is_consumed_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        popping = await cluster.start_consumer("g", "t", work=brief, **POP)
        await producer.send_many("t", N)
        await anyio.sleep(0.3)
        pulling = await cluster.start_consumer("g", "t", work=brief, **FIRST)
        await anyio.sleep(2)
        before = len(pulling.bodies)
        await producer.send_many("t", N)
        await anyio.sleep(15)
        assert len(pulling.bodies) > before, "it has the queues"
        await pulling.stop()
        await producer.send_many("t", N)
        await anyio.sleep(30)
        seen = Counter(body for consumer in (popping, pulling) for body in consumer.bodies)
        assert sum(seen.values()) == 3 * N
        assert set(seen.values()) == {3}
        last = [delivery.message.queue for delivery in popping.deliveries if delivery.time_s > 17]
        assert last, "and gave them back"

    simulate(scenario)


def test_what_a_killed_consumer_had_popped_is_pulled_from_the_retry_topic(simulate: Simulate) -> None:
    async def never(message: MessageExt) -> None:
        await anyio.sleep_forever()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        dies = await cluster.start_consumer("g", "t", work=never, **POP)
        await producer.send_many("t", 10)
        await anyio.sleep(1)
        pulling = await cluster.start_consumer("g", "t", **FIRST)
        await dies.crash()
        await anyio.sleep(30)
        assert Counter(pulling.bodies) == Counter(b"%d" % n for n in range(10))
        assert {delivery.message.times_delivered for delivery in pulling.deliveries} == {1}

    simulate(scenario)
