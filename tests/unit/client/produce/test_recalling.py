"""Recalls of a producer: a lost answer, a restart and a new master repeat the request, and it counts once."""

from __future__ import annotations

import anyio
import pytest

from client.produce.producer import Producer
from model.errors import IllegalOperation, InvalidParameter, QueryNotFound
from model.events import EventKind
from model.message import Message
from model.recall import parse_recall_handle
from remoting.address import parse_address
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES
from testbed.load.grpc import GrpcClientConnection
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import PAIR, wait_in_sync
from tests.simulation.wire import WireTap, wire
from tests.unit.client.produce.producing import stored

__all__ = ["wire"]


async def delayed(producer: SimulatedProducer, body: bytes = b"x", delay_ms: int = 30_000) -> tuple[Producer, str]:
    """Send a delayed message; returns the producer and the handle of the message."""
    sender: Producer = producer.producer
    with producer.simulation.on_host(producer.host):
        sent = await sender.send(Message("t", body), delay_ms=delay_ms)
    assert sent.recall_handle
    return sender, sent.recall_handle


def test_a_delayed_message_is_recalled_and_another_is_delivered(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        sender, handle = await delayed(producer, b"recalled")
        _, late = await delayed(producer, b"delivered")
        message_id = await sender.recall("t", handle)
        assert message_id == await sender.recall("t", handle)
        await anyio.sleep(31)
        assert [delivery.body for delivery in consumer.deliveries] == [b"delivered"]
        with pytest.raises(QueryNotFound, match="it was delivered"):
            await sender.recall("t", late)
        assert (await sender.send(Message("t", b"plain"))).recall_handle == ""

    simulate(scenario, brokers=2)


def test_a_producer_that_has_sent_nothing_to_the_topic_recalls_by_a_stored_handle(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        _, handle = await delayed(await cluster.start_producer())
        other = await cluster.start_producer()
        with other.simulation.on_host(other.host):
            assert await other.producer.recall("t", handle)
        [recalled] = cluster.events_of(EventKind.MESSAGE_RECALLED)
        assert (recalled.topic, recalled.detail != "") == ("t", True)

    simulate(scenario, brokers=2)


def test_a_recall_over_grpc_reaches_another_broker_than_the_one_that_is_asked(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        _, handle = await delayed(await cluster.start_producer())
        asked, other = "broker-a", parse_recall_handle(handle).broker
        if asked == other:
            asked = "broker-b"
        topic = MESSAGES["Resource"](name="t")
        request = MESSAGES["RecallMessageRequest"](topic=topic, recall_handle=handle)
        with cluster.simulation.on_host("stock"):
            connection = await GrpcClientConnection.to_server(*parse_address(cluster.brokers[asked].address))
            for _ in range(2):
                [answer] = await connection.ask("RecallMessage", request, "stock@1", 3.0)
                assert answer.status.code == proto.OK, answer.status
            await cluster.brokers[other].crash()
            [answer] = await connection.ask("RecallMessage", request, "stock@1", 5.0)
            assert answer.status.code == proto.INTERNAL_SERVER_ERROR
            assert "is not registered here" in answer.status.message
            connection.close()
        await cluster.brokers[other].start()
        await anyio.sleep(1)
        with pytest.raises(InvalidParameter, match="recall it there"):
            await _recall_at(cluster, asked, handle)
        await anyio.sleep(35)
        assert stored(cluster) == 0

    simulate(scenario, brokers=2)


async def _recall_at(cluster: SimulatedCluster, broker: str, handle: str) -> None:
    """Recall by a request that is not to be forwarded, as our own producers send it."""
    with cluster.simulation.on_host("p"):
        async with RemotingClient() as client:
            header = {"topic": "t", "handle": handle}
            await client.request(cluster.brokers[broker].address, RequestCode.RECALL_MESSAGE, header)


def test_a_recall_whose_answer_is_lost_is_repeated_and_counts_once(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p")
        sender, handle = await delayed(producer)
        cluster.simulation.network.set_latency("p", "broker-a", 0.1)

        async def cut() -> None:
            await anyio.sleep(0.15)  # the request has arrived, its answer has not
            cluster.simulation.network.cut("p", "broker-a")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut)
            with producer.simulation.on_host("p"):
                assert await sender.recall("t", handle)
        asked = [sent for sent in wire.sent if sent.code is RequestCode.RECALL_MESSAGE]
        assert len(asked) == 2
        await anyio.sleep(31)
        assert stored(cluster) == 0

    simulate(scenario, brokers=1)


def test_a_recall_waits_for_a_broker_that_restarts(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        sender, handle = await delayed(producer)
        await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        assert await sender.recall("t", handle)
        await anyio.sleep(31)
        assert stored(cluster) == 0

    simulate(scenario, brokers=1)


def test_what_one_replica_has_recalled_the_next_master_does_not_deliver(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2)
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        sender, recalled = await delayed(producer, b"recalled")
        _, other = await delayed(producer, b"other")
        message_id = await sender.recall("t", recalled)
        await cluster.replicas["broker-a-1"].crash()
        await anyio.sleep(15)
        assert await sender.recall("t", recalled) == message_id, "it is repeated at the new master"
        assert await sender.recall("t", other)
        await anyio.sleep(31)
        assert consumer.deliveries == []

    simulate(scenario, **PAIR)


def test_a_recall_is_refused_before_a_start_and_without_a_handle(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        sender, handle = await delayed(producer)
        for text in ("", "x"):
            with pytest.raises(InvalidParameter, match="not a recall handle"):
                await sender.recall("t", text)
        await cluster.create_topic("u", queues=1)
        with pytest.raises(InvalidParameter, match="of topic 't', not of 'u'"):
            await sender.recall("u", handle)
        with pytest.raises(IllegalOperation, match="start"):
            await Producer(cluster.addresses[0]).recall("t", handle)

    simulate(scenario, brokers=1)
