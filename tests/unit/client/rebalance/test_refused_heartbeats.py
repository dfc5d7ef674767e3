"""A heartbeat that brokers refuse for good reaches the caller, or whoever joins, and never only the log."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.lite_pull.consumer import LitePullConsumer
from client.pop.consumer import PopConsumer
from client.rebalance import member
from client.rebalance.member import GroupConsumer
from model import heartbeat
from model.errors import ClientFailed, InvalidParameter
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.unit.client.instance.members import FakeMember, FakeProducer, running_instance

LIMIT = 3


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The limit of subscriptions is 3."""
    monkeypatch.setattr(heartbeat, "MAX_SUBSCRIPTIONS_PER_MEMBER", LIMIT)
    return monkeypatch


async def started(cluster: SimulatedCluster, topics: list[str], **options: Any) -> SimulatedConsumer:
    """Start a push consumer that subscribes to these topics, which are created first."""
    for topic in topics:
        await cluster.create_topic(topic, queues=1)
    made = cluster.make_consumer("g", **options)
    return await cluster.subscribe_and_start(made, dict.fromkeys(topics, made.listener(None)))


def test_as_many_topics_as_the_limit_work_and_one_more_is_refused_where_it_is_subscribed_to(
    simulate: Simulate, few: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        topics = [f"t{n}" for n in range(LIMIT)]
        consumer = await started(cluster, topics, session_timeout_s=3)
        with pytest.raises(InvalidParameter, match="would have 4 subscriptions, more than 3"):
            await consumer.subscribe("one-more")
        await consumer.subscribe("t1", "*")  # one of them again
        await anyio.sleep(30)
        producer = await cluster.start_producer()
        for topic in topics:
            await producer.send(topic, topic.encode())
        await anyio.sleep(1)
        assert sorted(consumer.bodies) == [topic.encode() for topic in topics]

    simulate(scenario)


def made(cluster: SimulatedCluster, kind: type[LitePullConsumer] | type[PopConsumer]) -> Any:
    options: dict[str, Any] = {
        "clock_ms": cluster.simulation.clock_ms,
        "event_sink": cluster.record_event,
        "trace": False,
    }
    return kind(cluster.addresses, "g", instance_name="c", **options)


@pytest.mark.parametrize("kind", [LitePullConsumer, PopConsumer])
@pytest.mark.parametrize("is_started", [False, True])
def test_every_kind_of_consumer_refuses_a_topic_too_many_before_and_after_its_start(
    simulate: Simulate,
    few: pytest.MonkeyPatch,
    kind: type[LitePullConsumer] | type[PopConsumer],
    is_started: bool,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with cluster.simulation.on_host("c"):
            consumer = made(cluster, kind)
            if is_started:
                await consumer.start()
            for n in range(LIMIT):
                await consumer.subscribe(f"t{n}")
            with pytest.raises(InvalidParameter, match="would have 4 subscriptions"):
                await consumer.subscribe("one-more")
            await consumer.shutdown()

    simulate(scenario, brokers=1)


def test_a_subscription_that_a_broker_refuses_is_withdrawn_and_the_others_go_on(
    simulate: Simulate, few: pytest.MonkeyPatch
) -> None:
    """As at a broker of an earlier version, which takes less than this client."""
    few.setattr(member, "check_subscriptions", lambda group, topics: None)

    async def scenario(cluster: SimulatedCluster) -> None:
        topics = [f"t{n}" for n in range(LIMIT)]
        await cluster.create_topic("one-more", queues=1)
        consumer = await started(cluster, topics, session_timeout_s=3)
        with pytest.raises(InvalidParameter, match=r"broker .* refuses this client: .* 4 subscriptions"):
            await consumer.subscribe("one-more")
        await anyio.sleep(30)
        producer = await cluster.start_producer()
        for topic in [*topics, "one-more"]:
            await producer.send(topic, topic.encode())
        await anyio.sleep(1)
        assert sorted(consumer.bodies) == [topic.encode() for topic in topics]

    simulate(scenario)


def test_a_start_that_a_broker_refuses_fails_with_the_reason_and_leaves_nothing(
    simulate: Simulate, few: pytest.MonkeyPatch
) -> None:
    few.setattr(member, "check_subscriptions", lambda group, topics: None)

    async def scenario(cluster: SimulatedCluster) -> None:
        topics = [f"t{n}" for n in range(LIMIT + 1)]
        with pytest.raises(InvalidParameter, match="4 subscriptions"):
            await started(cluster, topics)
        info = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
        assert info is None or not info.members

    simulate(scenario)


def test_a_refusal_that_lasts_for_a_session_ends_the_consumer_and_reaches_who_joins(
    simulate: Simulate, few: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        topics = [f"t{n}" for n in range(LIMIT)]
        consumer = await started(cluster, topics, session_timeout_s=6)
        raised: list[ClientFailed] = []

        async def join(joined: GroupConsumer) -> None:
            try:
                await joined.join()
            except ClientFailed as error:
                raised.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join, consumer.consumer)
            await anyio.sleep(30)
            assert not raised
            # A broker that takes less comes in the place of the one that has taken the member.
            broker = cluster.brokers["broker-a"]
            await broker.stop()
            await broker.start()
            few.setattr(heartbeat, "MAX_SUBSCRIPTIONS_PER_MEMBER", LIMIT - 1)
            await anyio.sleep(5)
            assert not raised, "it may be over soon"
            await anyio.sleep(10)
            assert "has 3 subscriptions" in str(raised) or "would have 3 subscriptions" in str(raised)
        critical = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
        assert any("consumer of g" in text for text in critical)
        await consumer.stop()

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("is_consumer", [True, False])
def test_an_instance_takes_as_many_groups_as_a_heartbeat_and_refuses_one_more_at_its_start(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, is_consumer: bool
) -> None:
    monkeypatch.setattr("client.instance.heartbeats.MAX_GROUPS_OF_CLIENT", 2)

    async def scenario(cluster: SimulatedCluster) -> None:
        def client(group: str) -> FakeMember | FakeProducer:
            return FakeMember(group) if is_consumer else FakeProducer(group)

        async with running_instance(cluster) as instance:
            for group in ("a", "b"):
                instance.register(client(group))
            instance.register(FakeProducer("p") if is_consumer else FakeMember("p"))
            if not is_consumer:
                instance.register(FakeProducer("a"))
            with pytest.raises(InvalidParameter, match="give the client of group 'c' another instance_name"):
                instance.register(client("c"))

    simulate(scenario, brokers=1)
