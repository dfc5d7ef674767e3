"""A client that is none of ours stores what is not a message: it stops nobody, and takes no neighbour with it."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import msgpack
import pytest

from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.message import Message, encode_payload
from model.message_queue import MessageQueue
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_consuming import committed

pytestmark = pytest.mark.simulation

QUEUE = MessageQueue("t", "broker-a", 0)
FOREIGN = [
    b"\xc1",
    b'{"json": true}',
    msgpack.packb(["t", 7, "", [], {}, 5, "id"]),  # seven fields, but its body has no length
    msgpack.packb(["t", b"x", {}, [{}], {}, 5, "id"]),  # its tag and its key cannot be looked up
]


def message(n: int) -> bytes:
    return encode_payload(Message("t", str(n).encode(), keys=(f"k{n}",)), 0, f"id-{n}")


async def store(cluster: SimulatedCluster, producer: SimulatedProducer) -> None:
    """Store messages 0 to 9 with foreign payloads among them."""
    instance = producer.producer._instance
    assert instance is not None
    with cluster.simulation.on_host(producer.host):
        await instance.update_routes(("t",))
        connection = await instance.connect_master("broker-a", 1.0)
        for payload in [*map(message, range(5)), *FOREIGN, *map(message, range(5, 10)), FOREIGN[0]]:
            header = {"topic": "t", "queue_id": 0, "tag_hash": 0}
            await connection.request(RequestCode.SEND_MESSAGE, header, payload, 1.0)


def check_reported(cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture, offsets: list[int]) -> None:
    reported = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert [f"{QUEUE}+{offset}," in text for text, offset in zip(reported, offsets, strict=True)] == [True] * len(
        offsets
    )
    assert sum(event.n for event in cluster.events_of(EventKind.MESSAGES_UNDECODABLE)) == len(offsets)


@pytest.mark.parametrize("order", ["none", "queue", "key"])
def test_a_queue_goes_on_behind_what_is_not_a_message_and_is_committed_to_its_end(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, order: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        options: dict[str, Any] = {"order": order, "consume_from": ConsumeFrom.FIRST_OFFSET}
        consumer = await cluster.start_consumer("g", "t", **options)
        await cluster.wait_converged(2)
        await store(cluster, producer)
        await anyio.sleep(10)
        assert sorted(int(each.message.body) for each in consumer.deliveries) == list(range(10))
        assert committed(cluster) == 15
        check_reported(cluster, caplog, [5, 6, 7, 8, 14])

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("order", ["none", "queue"])
def test_what_is_popped_with_it_comes_once_and_nothing_becomes_a_dead_letter(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, order: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        options: dict[str, Any] = {"mode": "pop", "order": order, "invisible_s": 3.0, "max_attempts": 1}
        consumer = await cluster.start_consumer("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET, **options)
        await store(cluster, producer)
        await anyio.sleep(30)
        assert sorted(int(each.message.body) for each in consumer.deliveries) == list(range(10))
        assert committed(cluster) == 15
        assert cluster.events_of(EventKind.DEAD_LETTER) == []
        assert cluster.events_of(EventKind.MESSAGES_REDELIVERED) == []
        check_reported(cluster, caplog, [5, 6, 7, 8, 14])

    simulate(scenario, brokers=1)


def test_who_receives_gets_the_messages_around_it_and_never_what_is_none(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await store(cluster, producer)
        popper = await cluster.start_popper("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET)
        got: list[int] = []
        for _ in range(12):
            messages = await popper.receive(3, invisible_s=3.0, wait_s=1.0)
            got += [int(message.body) for message in messages]
            assert await popper.ack(messages) == []
        assert got == list(range(10))
        await anyio.sleep(5)
        assert committed(cluster) == 15
        check_reported(cluster, caplog, [5, 6, 7, 8, 14])

    simulate(scenario, brokers=1)
