"""A send: where it goes, and what is refused."""

from __future__ import annotations

from collections.abc import Awaitable
from random import Random
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.produce.producer import Producer
from model.errors import (
    ConfigError,
    IllegalOperation,
    InvalidParameter,
    MessageIllegal,
    NoPermission,
    TopicNotExist,
)
from model.heartbeat import ConsumeFrom
from model.limits import MAX_BATCH_MESSAGES, MAX_BODY_BYTES, ROUTE_POLL_INTERVAL_S
from model.message import Message
from model.message_queue import MessageQueue
from model.topic_route import Perm
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.produce.producing import stored

__all__ = ["wire"]


# -------------------------------------------------------------------------------------------------- one-way and batches


def test_a_one_way_message_is_stored_and_no_one_waits_for_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(host="p")
        queue = (await producer.send("t", b"first", key="k")).queue
        cluster.simulation.network.set_latency("p", queue.broker_name, 0.5)
        started_s = cluster.simulation.loop.time()
        await producer.producer.send_oneway(Message("t", b"x"), key="k")
        assert cluster.simulation.loop.time() == started_s
        await anyio.sleep(0.4)
        assert stored(cluster) == 1
        await anyio.sleep(0.2)
        broker = cluster.brokers[queue.broker_name].running.broker
        assert broker.store.max_offset(broker.topics.table.existing("t").topic_id, queue.queue_id) == 2

    simulate(scenario)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_batch_is_all_in_one_queue_in_order(simulate: Simulate, key: str | None) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", max_workers=1)
        producer = await cluster.start_producer()
        of_key = (await producer.send("t", b"first", key="k")).queue
        with cluster.simulation.on_host(producer.host):
            results = await producer.producer.send_batch([Message("t", b"%d" % n) for n in range(50)], key=key)
        assert len({result.queue for result in results}) == 1
        assert key is None or results[0].queue == of_key
        assert [result.offset - results[0].offset for result in results] == list(range(50))
        await anyio.sleep(1)
        got = [delivery.message for delivery in consumer.deliveries if delivery.body != b"first"]
        assert [message.body for message in got] == [b"%d" % n for n in range(50)]
        assert [message.message_id for message in got] == [result.message_id for result in results]

    simulate(scenario)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "got 0 of 0"),
        ([Message("t", b"x")] * (MAX_BATCH_MESSAGES + 1), f"got {MAX_BATCH_MESSAGES + 1} of 1"),
        ([Message("t", b"x"), Message("u", b"x")], "got 2 of 2"),
        ([Message("t", bytes(MAX_BODY_BYTES))] * 4, "send it in parts"),
        ([Message("t", b"x"), Message("t", b"")], "the body has 0 bytes"),
    ],
)
def test_a_batch_that_cannot_be_is_refused_and_nothing_of_it_is_stored(
    simulate: Simulate, messages: list[Message], why: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        with pytest.raises(MessageIllegal, match=why):
            await producer.producer.send_batch(messages)
        assert stored(cluster) == 0

    simulate(scenario)


# --------------------------------------------------------------------------------------------------------------- queues


def test_a_key_means_the_same_queue_for_every_producer_and_keys_are_spread(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producers = [await cluster.start_producer() for _ in range(2)]
        queues = [
            [(await producer.send("t", b"x", key=f"order-{n}")).queue for n in range(100)] for producer in producers
        ]
        assert queues[0] == queues[1]
        assert len(set(queues[0])) == 8

    simulate(scenario)


def test_messages_without_a_key_go_round_all_queues_that_may_be_written(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4, write=3)
        producer = await cluster.start_producer()
        results = [await producer.send("t", b"x") for _ in range(12)]
        queues = await producer.producer.queues("t")
        assert len(queues) == 6
        assert sorted(result.queue for result in results) == sorted(queues * 2)

    simulate(scenario)


# -------------------------------------------------------------------------------------------------- topics that are new


def test_a_topic_is_created_by_sending_to_it_and_then_its_real_route_is_used(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await cluster.start_producer()
        first = await producer.send("fresh", b"0")
        await anyio.sleep(1)
        await producer.send_many("fresh", 20, first=1)
        queues = await producer.producer.queues("fresh")
        assert {queue.broker_name for queue in queues} == {first.queue.broker_name}, "only one broker has it"
        assert {result.queue for result in producer.acknowledged.values()} == set(queues)
        consumer = await cluster.start_consumer("g", "fresh", consume_from=ConsumeFrom.FIRST_OFFSET)
        await anyio.sleep(1)
        assert sorted(int(body) for body in consumer.bodies) == list(range(21))

    simulate(scenario)


def test_where_no_broker_creates_topics_the_error_says_what_to_do_and_the_topic_is_found_once_it_exists(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await cluster.start_producer()
        for _ in range(2):
            with pytest.raises(TopicNotExist, match=r"'nowhere' does not exist .*'rlab topic create'"):
                await producer.send("nowhere", b"x")
            with pytest.raises(TopicNotExist):
                await producer.producer.queues("nowhere")
        await cluster.create_topic("nowhere")
        await producer.send("nowhere", b"x")

    simulate(scenario, auto_create_topics=False)


def test_a_topic_that_does_not_exist_is_not_asked_for_by_each_poll_from_then_on(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(host="p")
        await producer.send("t", b"x")
        with pytest.raises(TopicNotExist):
            await producer.send("mistyped", b"x")
        wire.sent.clear()
        await anyio.sleep(3 * ROUTE_POLL_INTERVAL_S)
        asked = [sent.header.get("topic") for sent in wire.sent if sent.code is RequestCode.GET_ROUTEINFO_BY_TOPIC]
        assert "t" in asked
        assert "mistyped" not in asked
        await cluster.create_topic("mistyped")
        assert (await producer.send("mistyped", b"x")).queue.topic == "mistyped"
        assert "mistyped" in producer.producer.topics()

    simulate(scenario, auto_create_topics=False)


def test_a_topic_that_takes_no_messages_is_not_said_to_be_missing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                for name in cluster.brokers:
                    await admin.allow_writes(name, allowed=False)
        producer = await cluster.start_producer()
        with pytest.raises(NoPermission, match="'orders' takes no messages now"):
            await producer.send("orders", b"x")

    simulate(scenario, auto_create_topics=False)


def test_a_topic_that_may_only_be_read_is_not_written_by_the_template_of_new_topics(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", perm=Perm.READ)
        producer = await cluster.start_producer()
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                await admin.create_topic("orders", read=2, write=0)
        for topic in ("t", "orders"):
            with pytest.raises(NoPermission, match=f"'{topic}' takes no messages now"):
                await producer.send(topic, b"x")

    simulate(scenario)


def test_queues_that_are_added_are_used_after_the_next_poll(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await cluster.create_topic("t", queues=3)
        await anyio.sleep(ROUTE_POLL_INTERVAL_S + 1)
        assert len({(await producer.send("t", b"x")).queue for _ in range(6)}) == 6

    simulate(scenario)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("text", "must be bytes, not str: encode text first"),
        (b"", "the body has 0 bytes"),
        (bytes(MAX_BODY_BYTES + 1), f"the body has {MAX_BODY_BYTES + 1} bytes"),
    ],
)
def test_a_body_that_cannot_be_is_refused_before_anything_is_sent(
    simulate: Simulate, wire: WireTap, body: Any, why: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(host="p")
        wire.sent.clear()
        with pytest.raises(MessageIllegal, match=why):
            await producer.send("t", body)
        with pytest.raises(MessageIllegal, match=why):
            await producer.producer.send_oneway(Message("t", body))
        assert wire.codes("p") == []

    simulate(scenario)


NO_MESSAGES: tuple[Any, ...] = (None, "x", b"x", 5, ["x"], ("t", b"x"))
NO_BATCHES: tuple[Any, ...] = (None, 5, iter([Message("t", b"x")]))
NO_TEXTS: tuple[Any, ...] = (5, b"x", ["x"])
NO_QUEUES: tuple[Any, ...] = ("x", 5, ("t", "broker-a", 0), MessageQueue("other", "broker-a", 0))


def test_arguments_of_a_wrong_type_are_refused_by_name_before_anything_is_sent(
    simulate: Simulate, wire: WireTap
) -> None:
    async def refused(why: str, *calls: Awaitable[object]) -> None:
        for call in calls:
            with pytest.raises((InvalidParameter, MessageIllegal), match=why):
                await call

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer, good = (await cluster.start_producer(host="p")).producer, Message("t", b"x")
        wire.sent.clear()
        for wrong in NO_MESSAGES:
            calls = producer.send(wrong), producer.send_oneway(wrong), producer.send_batch([wrong])
            await refused("must be a Message, got", *calls)
        for wrong in NO_BATCHES:
            await refused("a batch must be a list of messages", producer.send_batch(wrong))
        for wrong in NO_TEXTS:
            named = Message(wrong, b"x")
            await refused("the topic of a message must be a string", producer.send(named), producer.send_oneway(named))
            await refused("the topic of a message must be a string", producer.send_batch([named]))
            await refused("topic name must be a string", producer.queues(wrong))
            await refused("key must be a string", producer.send(good, key=wrong), producer.send_oneway(good, key=wrong))
            await refused("key must be a string", producer.send_batch([good], key=wrong))
        for wrong in NO_QUEUES:
            await refused("must be a MessageQueue|of another topic", producer.send(good, queue=wrong))
        assert not [code for code in wire.codes("p") if code.startswith("SEND")]

    simulate(scenario)


def test_the_largest_body_goes_through(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send("t", bytes(MAX_BODY_BYTES))
        assert stored(cluster) == 1

    simulate(scenario, brokers=1)


def test_a_producer_that_does_not_run_sends_nothing_and_says_how_to_make_it(simulate: Simulate) -> None:
    async def refuses(producer: Producer, state: str) -> None:
        message = Message("t", b"x")
        for call in (
            lambda: producer.send(message),
            lambda: producer.send(message, key="k"),
            lambda: producer.send_oneway(message),
            lambda: producer.send_batch([message]),
            lambda: producer.queues("t"),
        ):
            with pytest.raises(IllegalOperation, match=rf"{state}: use it inside 'async with'"):
                await call()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = Producer(cluster.addresses, rng=Random(0))
        await refuses(producer, "CREATE_JUST")
        async with producer:
            await producer.send(Message("t", b"x"))
            with pytest.raises(IllegalOperation, match="RUNNING"):
                await producer.start()
        await refuses(producer, "SHUTDOWN_ALREADY")
        await producer.shutdown()
        with pytest.raises(IllegalOperation, match="make a new one"):
            await producer.start()
        assert stored(cluster) == 1

    simulate(scenario)


def test_a_latency_sink_that_cannot_be_called_is_refused() -> None:
    sink: Any = "print"
    with pytest.raises(InvalidParameter, match="latency_sink must be a function, got 'print'"):
        Producer("127.0.0.1:9876", latency_sink=sink)


def test_an_option_that_is_not_an_option_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match="'heartbeat_interval': did you mean 'heartbeat_interval_s'"):
        Producer("127.0.0.1:9876", heartbeat_interval=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("retries", -1),
        ("retries", 101),
        ("retries", 1.5),
        ("timeout_s", 0),
        ("timeout_s", -1),
        ("timeout_s", float("nan")),
    ],
)
def test_a_number_that_no_send_could_keep_to_is_refused_by_name(option: str, value: float) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=f"{option} must be .* got {value}"):
        Producer("127.0.0.1:9876", **options)


# -------------------------------------------------------------------------------------------------------------- delays


def test_a_delayed_message_has_no_offset_yet_and_comes_when_its_time_has_come(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        with cluster.simulation.on_host(producer.host):
            result = await producer.producer.send(Message("t", b"x"), delay_ms=5_000)
        sent_s = cluster.simulation.loop.time()
        assert result.offset == -1
        await anyio.sleep(10)
        (delivery,) = consumer.deliveries
        assert delivery.time_s - sent_s == pytest.approx(5, abs=0.05)
        assert delivery.message.message_id == result.message_id

    simulate(scenario)


def test_a_send_to_a_queue_that_is_gone_goes_to_another_by_a_fresh_route(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer(route_poll_interval_s=3600.0)
        await producer.send_many("t", 4)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                await admin.scale_topic("t", write=1)
                await admin.scale_topic("t", read=1, force=True)
        for n in range(4):
            result = await producer.send("t", b"%d" % n)
            assert result.queue.queue_id == 0

    simulate(scenario, brokers=1)
