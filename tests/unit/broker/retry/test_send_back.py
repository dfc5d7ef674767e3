from __future__ import annotations

from collections.abc import Awaitable

import pytest

from model.errors import QueryNotFound, TopicNotExist
from model.record import iter_records
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def send_back(client: RemotingClient, cluster: SimulatedCluster, offset: int, **header: object) -> Awaitable[Command]:
    """Send message `offset` of the only queue of topic t back."""
    whole = {"group": "g", "topic": "t", "queue_id": 0, "offset": offset, "max_attempts": 16, **header}
    return client.request(cluster.brokers["broker-a"].address, RequestCode.CONSUMER_SEND_MSG_BACK, whole)


def test_a_message_that_is_sent_back_waits_and_keeps_its_payload(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send("t", b"body", tags="a")
        broker = cluster.brokers["broker-a"].running.broker
        async with RemotingClient() as client:
            answer = await send_back(client, cluster, 0, delay_ms=0)
            assert answer.header["dead"] is False
        original = broker.store.read(broker.topics.table.existing("t").topic_id, 0, 0, max_n=1, max_bytes=1 << 20)
        retry = broker.store.read(broker.topics.table.existing("%RETRY%g").topic_id, 0, 0, max_n=1, max_bytes=1 << 20)
        (sent,), (again,) = list(iter_records(original.body)), list(iter_records(retry.body))
        assert (again.payload, again.tag_hash) == (sent.payload, sent.tag_hash)
        assert (sent.times_delivered, again.times_delivered) == (0, 1)

    simulate(scenario, brokers=1)


def test_after_the_last_attempt_it_is_a_dead_letter_at_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send("t", b"body")
        broker = cluster.brokers["broker-a"].running.broker
        async with RemotingClient() as client:
            answer = await send_back(client, cluster, 0, max_attempts=0)
        assert answer.header["dead"] is True
        assert len(broker.delays) == 0
        assert broker.store.max_offset(broker.topics.table.existing("%DLQ%g").topic_id, 0) == 1

    simulate(scenario, brokers=1)


def test_what_the_broker_does_not_have_cannot_be_sent_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        async with RemotingClient() as client:
            with pytest.raises(QueryNotFound, match="no longer has message 7"):
                await send_back(client, cluster, 7)
            with pytest.raises(TopicNotExist):
                await send_back(client, cluster, 0, topic="unknown")

    simulate(scenario, brokers=1)
