"""Filters by SQL in each way to consume: which messages come, and that the others are passed over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from broker.messages.pull import Pulls
from broker.pop.service import Pop
from client.admin.admin import Admin
from client.listeners.listener import ConsumeResult
from model.events import EventKind
from model.group_agreement import describe
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import MessageExt
from model.names import dlq_topic
from model.subscription import Expression, Sql
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import Q0, Lite

pytestmark = pytest.mark.simulation

DEAR = Sql("price > 10")
FIRST: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET}


async def send(producer: SimulatedProducer, *prices: int | None) -> None:
    for n, price in enumerate(prices):
        await producer.send("t", b"%d" % n, properties={} if price is None else {"price": str(price)})


def numbers(consumer: SimulatedConsumer) -> list[int]:
    return sorted(int(body) for body in consumer.bodies)


def committed(cluster: SimulatedCluster, topic: str = "t") -> int:
    return int(cluster.brokers["broker-a"].running.broker.leases.offsets.read("g", topic, 0) or 0)


@pytest.mark.parametrize(
    "options", [{}, {"mode": "pop"}, {"order": "queue"}, {"mode": "pop", "order": "queue"}], ids=str
)
def test_only_messages_that_match_come_and_the_others_do_not_hold_the_commit_back(
    simulate: Simulate, options: dict[str, Any]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression=DEAR, **options)
        await send(await cluster.start_producer(), *[5, 11, None, 100] * 25)
        await anyio.sleep(6)
        assert numbers(consumer) == [n for n in range(100) if n % 4 in (1, 3)]
        assert committed(cluster) == 100

    simulate(scenario, brokers=1)


def test_a_filter_that_passes_one_in_a_thousand_finds_it_among_stored_messages(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await send(await cluster.start_producer(), *[1] * 999, 11, *[1] * 999, 11, *[1] * 3)
        consumer = await cluster.start_consumer("g", "t", expression=DEAR, **FIRST)
        await anyio.sleep(6)
        assert numbers(consumer) == [999, 1999]
        assert committed(cluster) == 2003

    simulate(scenario, brokers=1)


def test_broadcasting_members_filter_each_for_itself(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"model": MessageModel.BROADCASTING}
        dear = await cluster.start_consumer("g", "t", expression=DEAR, **options)
        cheap = await cluster.start_consumer("g", "t", expression=Sql("price <= 10"), **options)
        await send(await cluster.start_producer(), 5, 11, None)
        await anyio.sleep(6)
        assert (numbers(dear), numbers(cheap)) == ([1], [0])

    simulate(scenario, brokers=1)


def test_pop_consumers_receive_what_matches(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        popper = await cluster.start_popper("g", "t", expression=DEAR, **FIRST)
        await send(await cluster.start_producer(), 5, 11, None)
        received = await popper.receive()
        assert [message.body for message in received] == [b"1"]
        await popper.ack(received)
        await anyio.sleep(2)
        assert committed(cluster) == 3

    simulate(scenario, brokers=1)


def test_lite_pull_consumers_poll_what_matches_subscribed_or_assigned(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        await send(await cluster.start_producer(), 5, 11, None, 12)
        subscribed, assigned = Lite(cluster, "a", **FIRST), Lite(cluster, "b", **FIRST)
        await subscribed.do(subscribed.consumer.subscribe, "t", DEAR)
        await subscribed.start(None)
        await assigned.do(assigned.consumer.assign, [Q0], {"t": DEAR})
        await assigned.start(None)
        for lite in (subscribed, assigned):
            assert await lite.drain() == [1, 3]
            await lite.do(lite.consumer.shutdown)

    simulate(scenario, brokers=1)


def test_failed_messages_are_redelivered_and_become_dead_letters_although_their_topics_have_no_filter(
    simulate: Simulate,
) -> None:
    async def fails(_: MessageExt) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression=DEAR, work=fails, max_attempts=2)
        await send(await cluster.start_producer(), 5, 11)
        await anyio.sleep(120)
        assert [delivery.message.times_delivered for delivery in consumer.deliveries] == [0, 1, 2]
        broker = cluster.brokers["broker-a"].running.broker
        dead = broker.topics.table.existing(dlq_topic("g")).topic_id
        assert broker.store.max_offset(dead, 0) == 1

    simulate(scenario, brokers=1)


@pytest.mark.parametrize(("changed", "expected"), [("*", [1, 2, 3]), (Sql("price < 10"), [1, 2]), ("a", [1])])
def test_a_changed_expression_counts_for_what_comes_and_nothing_that_was_passed_over_is_redelivered(
    simulate: Simulate, changed: Expression, expected: list[int]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression=DEAR)
        producer = await cluster.start_producer()
        await send(producer, 5, 11)
        await anyio.sleep(6)
        await consumer.subscribe("t", changed)
        await anyio.sleep(1)
        await producer.send("t", b"2", properties={"price": "6"})
        await producer.send("t", b"3", properties={"price": "12"})
        await anyio.sleep(6)
        assert numbers(consumer) == expected

    simulate(scenario, brokers=1)


def test_members_with_two_filters_are_an_event_and_a_warning_and_agree_again(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t", expression=DEAR)
        second = await cluster.start_consumer("g", "t", expression=Sql("price > 20"))
        await anyio.sleep(5)
        said = [event.detail for event in cluster.events if event.kind == EventKind.GROUP_INCONSISTENT]
        assert "filter of t: SQL price > 10" in said[0]
        assert "SQL price > 20" in said[0]
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                shown = await admin.group("g")
        assert [str(one) for member in shown.members for one in member.subscriptions if one.topic == "t"] == [
            't=SQL"price > 10"',
            't=SQL"price > 20"',
        ]
        assert "SQL price > 20" in describe(shown.disagreements)
        await second.subscribe("t", DEAR)
        await anyio.sleep(5)
        last = [event.detail for event in cluster.events if event.kind == EventKind.GROUP_INCONSISTENT][-1]
        assert last == "agreed"

    simulate(scenario, brokers=1)
    assert "SQL price > 20" in caplog.text


def _earlier(
    handlers: Callable[[Any], dict[RequestCode, Any]], *left_out: RequestCode
) -> Callable[[Any], dict[RequestCode, Any]]:
    return lambda feature: {code: serve for code, serve in handlers(feature).items() if code not in left_out}


@pytest.mark.parametrize("options", [{}, {"mode": "pop"}], ids=str)
def test_a_broker_of_an_earlier_version_is_named_and_serves_nothing_unfiltered(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(Pulls, "handlers", _earlier(Pulls.handlers, RequestCode.PULL_MESSAGE_BY_SQL))
    monkeypatch.setattr(Pop, "handlers", _earlier(Pop.handlers, RequestCode.POP_MESSAGE_BY_SQL))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", expression=DEAR, **options)
        await send(await cluster.start_producer(), 5, 11)
        await anyio.sleep(6)
        assert consumer.bodies == []
        await consumer.subscribe("t", "*")
        await anyio.sleep(6)
        assert numbers(consumer) == [0, 1]

    with caplog.at_level(logging.WARNING):
        simulate(scenario, brokers=1)
    named = "broker 'broker-a' is of a version without SQL filters: upgrade it, or subscribe to tags"
    assert caplog.text.count(named) == 1
