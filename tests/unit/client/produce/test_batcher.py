from __future__ import annotations

from functools import partial

import anyio
import pytest

from model.errors import InvalidParameter, RlabError
from model.limits import ROWS_PER_REQUEST
from model.message import Message
from model.message_queue import MessageQueue
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

__all__ = ["wire"]


async def send_together(producer: SimulatedProducer, bodies: list[bytes], queue: MessageQueue) -> dict[bytes, int]:
    """Send all in one loop turn; returns body -> offset."""
    offsets: dict[bytes, int] = {}

    async def send(body: bytes) -> None:
        offsets[body] = (await producer.producer.send(Message("t", body), queue=queue)).offset

    with producer.simulation.on_host(producer.host):
        async with anyio.create_task_group() as tasks:
            for body in bodies:
                tasks.start_soon(send, body)
    return offsets


def test_sends_of_one_turn_to_one_queue_get_consecutive_offsets_in_their_order(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        first = await producer.send("t", b"first")
        bodies = [b"%d" % number for number in range(100)]
        offsets = await send_together(producer, bodies, first.queue)
        assert offsets == {body: 1 + number for number, body in enumerate(bodies)}

    simulate(scenario, brokers=1)


def test_a_send_that_is_alone_is_a_plain_send_and_company_is_one_request(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        first = await producer.send("t", b"first")
        await send_together(producer, [b"a", b"b", b"c"], first.queue)
        assert [sent.code for sent in wire.sent if sent.header.get("topic") == "t" and "queue_id" in sent.header] == [
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE,  # nothing was under way, so the first of three does not wait for the others
            RequestCode.SEND_BATCH_MESSAGE,
        ]

    simulate(scenario, brokers=1, trace=False)


def test_a_full_request_leaves_before_the_others_are_added(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        first = await producer.send("t", b"first")
        sent_before: list[int] = []

        async def watched(number: int) -> None:
            sent_before.append(sum(each.code == RequestCode.SEND_BATCH_MESSAGE for each in wire.sent))
            await producer.producer.send(Message("t", b"%d" % number), queue=first.queue)

        with producer.simulation.on_host(producer.host):
            async with anyio.create_task_group() as tasks:
                for number in range(1 + 2 * ROWS_PER_REQUEST):  # the first leaves alone
                    tasks.start_soon(watched, number)
        assert sent_before == [0] * (1 + ROWS_PER_REQUEST) + [1] * ROWS_PER_REQUEST

    simulate(scenario, brokers=1, trace=False)


def test_an_error_of_the_request_reaches_everybody_in_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        nowhere = MessageQueue("t", "broker-a", 99)
        errors: list[str] = []

        async def send(body: bytes) -> None:
            with pytest.raises(RlabError, match="no queue 99") as caught:
                await producer.producer.send(Message("t", body), queue=nowhere)
            errors.append(str(caught.value))

        with producer.simulation.on_host(producer.host):
            async with anyio.create_task_group() as tasks:
                for body in (b"a", b"b"):
                    tasks.start_soon(send, body)
        assert len(errors) == 2

    simulate(scenario, brokers=1)


def test_a_request_that_cannot_be_sent_fails_alone(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        first = await producer.send("t", b"first")

        async def send_nowhere() -> None:
            with pytest.raises(InvalidParameter, match="nothing was sent"):
                await producer.producer.send(Message("t", b"b"), queue=MessageQueue("t", "broker-a", 2**70))

        with producer.simulation.on_host(producer.host), anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(producer.producer.send, Message("t", b"a"), queue=first.queue))
                tasks.start_soon(send_nowhere)
                tasks.start_soon(partial(producer.producer.send, Message("t", b"c"), queue=first.queue))
        assert (await producer.send("t", b"d")).offset == 3

    simulate(scenario, brokers=1)


def test_a_cancelled_sender_takes_nothing_from_the_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        first = await producer.send("t", b"first")
        with producer.simulation.on_host(producer.host):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(producer.producer.send, Message("t", b"a"))
                tasks.cancel_scope.cancel()
        offsets = await send_together(producer, [b"b", b"c"], first.queue)
        assert offsets[b"c"] == offsets[b"b"] + 1

    simulate(scenario, brokers=1)
