from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio
import pytest

from model.errors import InvalidParameter, MessageIllegal, RlabError
from model.limits import ROWS_PER_REQUEST
from model.message import MESSAGE_GROUP, Message
from model.message_queue import MessageQueue
from model.topic_route import MessageType, Perm, TopicConfig
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


def test_an_error_of_the_request_reaches_everyone_in_it(simulate: Simulate) -> None:
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


async def send_to_queues(producer: SimulatedProducer, queue_ids: list[int]) -> list[int | str]:
    """Send to these queues in one loop turn, while another request is under way; offsets, or names of errors."""
    outcomes: dict[int, int | str] = {}

    async def send(number: int, queue_id: int) -> None:
        queue = MessageQueue("t", "broker-a", queue_id)
        try:
            outcomes[number] = (await producer.producer.send(Message("t", b"%d" % number), queue=queue)).offset
        except RlabError as error:
            outcomes[number] = type(error).__name__

    with producer.simulation.on_host(producer.host):
        under_way = producer.producer._masters["broker-a"].request(RequestCode.GET_SERVER_STATE)
        async with anyio.create_task_group() as tasks:
            for number, queue_id in enumerate(queue_ids):
                tasks.start_soon(send, number, queue_id)
        await under_way
    return [outcomes[number] for number in range(len(queue_ids))]


def codes_to_broker(wire: WireTap) -> list[RequestCode]:
    sends = (RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGES)
    return [sent.code for sent in wire.sent if sent.code in sends and sent.header.get("topic") == "t"]


def test_sends_of_one_turn_to_several_queues_share_a_request(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer()
        await producer.send("t", b"first")
        wire.sent.clear()
        queue_ids = [0, 1, 2, 0, 1, 2, 0]
        outcomes = await send_to_queues(producer, queue_ids)
        for queue_id in range(3):
            own = [outcome for outcome, each in zip(outcomes, queue_ids, strict=True) if each == queue_id]
            first = own[0]
            assert isinstance(first, int)
            assert own == list(range(first, first + len(own)))
        assert codes_to_broker(wire) == [RequestCode.SEND_MESSAGES]

    simulate(scenario, brokers=1, trace=False)


def test_only_the_sender_to_a_queue_that_is_not_there_gets_the_error(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer(retries=0)
        await producer.send("t", b"first")
        outcomes = await send_to_queues(producer, [0, 99, 1, 0, 2**70, 1])
        assert [outcome for outcome in outcomes if isinstance(outcome, str)] == ["InvalidParameter"] * 2
        assert (outcomes[1], outcomes[4]) == ("InvalidParameter", "InvalidParameter")
        assert len(cluster.brokers["broker-a"].running.broker.store.queues()) >= 2

    simulate(scenario, brokers=1)


def test_only_the_sender_of_a_message_that_the_topic_does_not_take_gets_the_error(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(retries=0)
        queue = (await producer.send("t", b"first")).queue
        config = TopicConfig(topic="t", read_queue_nums=1, write_queue_nums=1, message_type=MessageType.FIFO)
        cluster.brokers["broker-a"].running.broker.topics.put(config)
        outcomes: dict[int, int | str] = {}

        async def send(number: int) -> None:
            properties = {MESSAGE_GROUP: "g"} if number % 3 else {}
            message = Message("t", b"%d" % number, properties=properties)
            try:
                outcomes[number] = (await producer.producer.send(message, queue=queue)).offset
            except MessageIllegal as error:
                outcomes[number] = str(error)

        with producer.simulation.on_host(producer.host):
            async with anyio.create_task_group() as tasks:
                for number in range(7):
                    tasks.start_soon(send, number)
        taken = [number for number in range(7) if number % 3]
        assert [outcomes[number] for number in taken] == [1, 2, 3, 4], "in their order"
        assert all("takes FIFO messages only" in str(outcomes[number]) for number in (0, 3, 6))

    simulate(scenario, brokers=1)


def test_a_broker_of_an_earlier_commit_gets_the_messages_of_each_queue_alone(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        await producer.send("t", b"first")
        del cluster.brokers["broker-a"].running.server._handlers[RequestCode.SEND_MESSAGES]
        for _ in range(2):
            assert all(isinstance(offset, int) for offset in await send_to_queues(producer, [0, 1, 0, 1]))
        codes = codes_to_broker(wire)
        assert codes.count(RequestCode.SEND_MESSAGES) == 1, "it is asked once over each connection"
        assert codes.count(RequestCode.SEND_BATCH_MESSAGE) == 4
        await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        await producer.send("t", b"connects again")
        assert all(isinstance(offset, int) for offset in await send_to_queues(producer, [0, 1, 0, 1]))
        assert codes_to_broker(wire)[-1] == RequestCode.SEND_MESSAGES, "the new one is asked again"

    simulate(scenario, brokers=1, trace=False)


def test_a_refusal_that_is_about_all_messages_reaches_all_senders_at_once(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer(retries=0)
        await producer.send("t", b"first")
        broker = cluster.brokers["broker-a"].running.broker
        entry = broker.topics.table.existing("t")
        entry.accepts_below, entry.config = 0, replace(entry.config, perm=Perm.READ)
        wire.sent.clear()
        outcomes = await send_to_queues(producer, [0, 1, 0, 1])
        assert outcomes == ["NoPermission"] * 4
        assert codes_to_broker(wire) == [RequestCode.SEND_MESSAGES]

    simulate(scenario, brokers=1, trace=False)
