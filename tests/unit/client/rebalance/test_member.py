"""What push and lite pull consumers have in common."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.allocate import AllocateMessageQueueBalancedSticky
from client.lite_pull.consumer import LitePullConsumer
from client.push.consumer import PushConsumer
from model.errors import ConnectFailed, InvalidParameter
from model.events import Event, EventKind
from model.heartbeat import ConsumeType
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

Queues = tuple[MessageQueue, ...]


def test_a_message_queue_listener_sees_every_change_and_may_fail(simulate: Simulate) -> None:
    calls: list[tuple[str, int, int]] = []

    async def listener(topic: str, everything: Queues, own: Queues) -> None:
        calls.append((topic, len(everything), len(own)))
        raise ValueError("whatever")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.create_topic("u", queues=1)
        first = await cluster.start_consumer("g", "t", message_queue_listener=listener)
        await anyio.sleep(3)
        second = await cluster.start_consumer("g", "t")
        await anyio.sleep(3)
        await second.crash()
        await anyio.sleep(3)
        await cluster.create_topic("t", queues=3)
        await anyio.sleep(40)
        await first.subscribe("u")
        await anyio.sleep(3)
        await first.unsubscribe("t")
        await anyio.sleep(3)

    simulate(scenario)
    assert calls == [("t", 4, 4), ("t", 4, 2), ("t", 4, 4), ("t", 6, 6), ("u", 2, 2), ("t", 0, 0)]


@pytest.mark.parametrize("sticky", [False, True])
def test_a_member_that_gave_up_its_last_topic_stays_one_without_queues_until_it_leaves(
    simulate: Simulate, sticky: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        strategy = AllocateMessageQueueBalancedSticky() if sticky else None
        first = await cluster.start_consumer("g", "t", strategy=strategy)
        second = await cluster.start_consumer("g", "t", strategy=strategy)
        await cluster.wait_converged(5)
        await first.unsubscribe("t")
        await anyio.sleep(3)
        assert (len(first.queues), len(second.queues)) == (0, 4)
        info = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
        assert info is not None
        assert [each.data.consume_type for each in info.members.values()] == [ConsumeType.PASSIVELY] * 2
        await first.stop()
        assert len(info.members) == 1

    simulate(scenario)


def test_a_subscription_that_no_name_server_seen_takes_effect_when_one_is_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = cluster.make_consumer("g")
        await consumer.start()
        await cluster.name_servers["namesrv-1"].crash()
        with pytest.raises(ConnectFailed):
            await consumer.subscribe("t")
        await cluster.name_servers["namesrv-1"].start()
        await anyio.sleep(70)
        assert len(consumer.queues) == 2

    simulate(scenario, brokers=1)


def test_an_event_sink_that_raises_is_logged_and_has_no_other_effect(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    def sink(event: Event) -> None:
        if event.kind == EventKind.ROUTE_CHANGED and event.n == 3:
            raise ValueError("the disk of the trace is full")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        made = await cluster.start_consumer("g", "t", event_sink=sink)
        await cluster.create_topic("t", queues=3)
        await anyio.sleep(40)
        assert len(made.queues) == 3

    simulate(scenario, brokers=1)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "the event_sink failed" in record.getMessage()
    assert "<locals>.sink" in record.getMessage()


def test_who_joins_goes_on_when_the_consumer_is_shut_down_and_when_it_is_cancelled(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        made = await cluster.start_consumer("g", "t")
        with anyio.move_on_after(1) as scope:
            await made.consumer.join()
        assert scope.cancelled_caught
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.consumer.join)
                await anyio.sleep(1)
                assert len(made.queues) == 2
                await made.stop()
        await made.consumer.join()

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_a_queue_listener_that_cannot_be_called_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(InvalidParameter, match="message_queue_listener must be a function, got 5"):
        kind("127.0.0.1:9876", "g", message_queue_listener=5)


def test_a_name_to_unsubscribe_from_that_is_none_is_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        consumer: Any = PushConsumer(cluster.addresses, "g")
        for wrong in (None, 5, ["t"]):
            with pytest.raises(InvalidParameter, match="topic name must be a string"):
                await consumer.unsubscribe(wrong)

    simulate(scenario)
