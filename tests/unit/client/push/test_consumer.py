"""What users call of a consumer: the lifecycle, the subscriptions, and what becomes of what listeners answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from client.allocate import AllocateMessageQueueAveragely
from client.push.consumer import PushConsumer
from model.errors import ConfigError, ConnectFailed, IllegalOperation, InvalidParameter
from model.events import EventKind
from model.limits import ROUTE_POLL_INTERVAL_S
from model.message import MessageExt
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


async def ignores(messages: Sequence[MessageExt]) -> None:
    pass


def made(**options: Any) -> PushConsumer:
    return PushConsumer("127.0.0.1:9876", "g", **options)


def finished(consumer: SimulatedConsumer) -> list[bytes]:
    return [delivery.body for delivery in consumer.deliveries if delivery.finished]


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_worker": 1}, "'max_worker': did you mean 'max_workers'"),
        ({"route_poll_interval": 1}, "'route_poll_interval': did you mean 'route_poll_interval_s'"),
        ({"consume_batch": 0}, "consume_batch must be 1 to 1024, got 0"),
    ],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(**options)


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("AVG", "must be an allocation strategy, with a name and allocate"),
        (AllocateMessageQueueAveragely, r"make one, as AllocateMessageQueueAveragely\(\)"),
    ],
)
def test_a_strategy_that_is_none_is_refused_at_once(strategy: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(strategy=strategy)


def test_a_listener_that_cannot_be_called_is_refused_and_leaves_no_trace(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = made()
        with pytest.raises(InvalidParameter, match="got 'tagA'; tags come third"):
            await consumer.subscribe("t", "tagA")  # type: ignore[arg-type]
        assert consumer.topics() == ()

    simulate(scenario)


def test_a_wrong_group_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        PushConsumer("127.0.0.1:9876", "no spaces, please")


# ----------------------------------------------------------------------------------------------------------- lifecycle


def test_before_its_start_a_consumer_has_nothing_and_a_shutdown_is_harmless(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = cluster.make_consumer("g").consumer
        assert (consumer.client_id, consumer.queues, consumer.topics()) == ("", [], ())
        await consumer.shutdown()
        await consumer.start()
        await consumer.shutdown()

    simulate(scenario)


def test_a_start_without_a_name_server_fails_clearly_and_only_a_new_consumer_can_start(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.name_servers["namesrv-1"].crash()
        consumer = cluster.make_consumer("g")
        await consumer.subscribe("t")
        with pytest.raises(ConnectFailed, match="namesrv-1"):
            await consumer.start()
        assert not cluster.simulation.network.connections(consumer.host)
        with pytest.raises(IllegalOperation, match="START_FAILED: make a new one"):
            await consumer.start()
        await consumer.stop()

    simulate(scenario)


def test_leaving_the_block_on_a_cancellation_leaves_the_group_properly_too(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        with anyio.move_on_after(1) as scope:
            async with cluster.make_consumer("g").consumer as consumer:
                await consumer.subscribe("t", ignores)
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        left = cluster.events_of(EventKind.MEMBER_LEAVE)
        assert [event.detail for event in left] == ["unregister"] * 2

    simulate(scenario)


def test_who_joins_a_consumer_waits_until_someone_shuts_it_down(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.consumer.join)
            await anyio.sleep(5)
            with anyio.move_on_after(1) as scope:
                await consumer.consumer.join()
            assert scope.cancelled_caught
            assert consumer.queues, "to wait no longer is not to end it"
            await consumer.stop()

    simulate(scenario)


# -------------------------------------------------------------------------------------------------------- subscriptions


@pytest.mark.parametrize(
    ("topic", "expression", "error"),
    [
        ("%RETRY%g", "*", IllegalOperation),
        ("no spaces", "*", InvalidParameter),
        ("", "*", InvalidParameter),
        ("t", "||", InvalidParameter),
    ],
)
def test_a_subscription_that_cannot_be_is_refused_and_leaves_no_trace(
    simulate: Simulate, topic: str, expression: str, error: type[Exception]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer = made()
        with pytest.raises(error):
            await consumer.subscribe(topic, ignores, expression)
        assert consumer.topics() == ()

    simulate(scenario)


def test_topics_may_be_subscribed_to_before_and_after_the_start_and_each_has_its_listener(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        await cluster.create_topic("u")
        got: dict[str, list[bytes]] = {"t": [], "u": []}

        async def for_t(messages: Sequence[MessageExt]) -> None:
            got["t"] += [message.body for message in messages]

        async def for_u(messages: Sequence[MessageExt]) -> None:
            got["u"] += [message.body for message in messages]

        consumer = await cluster.start_consumer("g", "t", listener=for_t)
        await consumer.consumer.subscribe("u", for_u)
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        await producer.send("t", b"1")
        await producer.send("u", b"2")
        await anyio.sleep(1)
        assert got == {"t": [b"1"], "u": [b"2"]}
        await consumer.consumer.subscribe("t", for_u)
        await producer.send("t", b"3")
        await anyio.sleep(1)
        assert got == {"t": [b"1"], "u": [b"2", b"3"]}

    simulate(scenario)


def test_each_subscription_is_newer_than_the_one_before(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t", expression="a")
        versions = []
        for expression in ("a", "b"):
            await consumer.subscribe("t", expression)
            data = consumer.consumer.consumer_data()
            assert data is not None
            subscriptions = {subscription.topic: subscription for subscription in data.subscriptions}
            assert list(subscriptions) == ["%RETRY%g", "t"]
            assert subscriptions["t"].expression == expression
            versions.append(subscriptions["t"].version)
        assert versions[0] < versions[1]

    simulate(scenario)


def test_a_topic_that_does_not_exist_yet_is_named_in_a_warning_and_waited_for(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with caplog.at_level(logging.WARNING, logger="client.push.consumer"):
            consumer = await cluster.start_consumer("g", "later")
        assert ["later do not exist yet" in record.getMessage() for record in caplog.records] == [True]
        assert consumer.queues == []
        producer = await cluster.start_producer()
        await producer.send_many("later", 10)
        await anyio.sleep(ROUTE_POLL_INTERVAL_S + 1)
        assert sorted(int(body) for body in finished(consumer)) == list(range(10)), "the first message, too"

    simulate(scenario)


def test_giving_up_a_topic_that_was_never_wanted_is_harmless(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(1, retry_topics=True)
        at = len(cluster.events)
        await consumer.unsubscribe("u")
        await anyio.sleep(0.5)
        assert cluster.events[at:] == []

    simulate(scenario)


# -------------------------------------------------------------------------------------------------------------- results


def test_a_result_that_comes_after_the_queue_is_another_members_is_counted_and_commits_nothing(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        done = anyio.Event()

        async def slow(message: MessageExt) -> None:
            await done.wait()

        hung = await cluster.start_consumer("g", "t", work=slow, session_timeout_s=9.0)
        producer = await cluster.start_producer()
        await cluster.wait_converged(1)
        await producer.send("t", b"x")
        await anyio.sleep(1)
        fault = hung.hang()
        heir = await cluster.start_consumer("g", "t", work=slow)
        await anyio.sleep(20)
        assert heir.bodies == [b"x"]
        fault.heal()
        await anyio.sleep(3)
        assert hung.consumer.late_results == 0
        done.set()
        await anyio.sleep(10)
        assert (hung.consumer.late_results, heir.consumer.late_results) == (1, 0)
        assert finished(heir) == [b"x"]
        committed = [event for event in cluster.events_of(EventKind.OFFSET_COMMITTED, topic="t") if event.offset]
        assert [(event.client, event.offset) for event in committed] == [(heir.client_id, 1)]

    simulate(scenario, brokers=1)
