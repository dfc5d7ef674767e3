from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.limits import MAX_PAYLOAD_BYTES, RECONNECT_MAX_S
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


async def fails(message: MessageExt) -> None:
    raise ValueError("not this time")


def test_a_failed_message_is_redelivered_through_the_retry_topic_as_it_was(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options: dict[str, Any] = {"retry_delay_ms": 2_000, "max_attempts": 1}
        consumer = await cluster.start_consumer("g", "t", work=fails, **options)
        producer = await cluster.start_producer()
        sent = await producer.send("t", b"x", tags="a")
        await anyio.sleep(10)
        first, second = consumer.deliveries
        assert (first.message.queue.topic, second.message.queue.topic) == ("t", "%RETRY%g")
        assert second.message.topic == "t"
        assert second.message.message_id == first.message.message_id == sent.message_id
        assert (first.times_delivered, second.times_delivered) == (0, 1)

    simulate(scenario, brokers=1)


def test_when_its_broker_is_gone_a_copy_goes_to_another_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        slow = anyio.Event()

        async def waits_then_fails(message: MessageExt) -> None:
            if message.times_delivered == 0:
                await slow.wait()
                raise ValueError("its broker is gone by now")

        consumer = await cluster.start_consumer("g", "t", work=waits_then_fails, retry_delay_ms=1_000)
        await anyio.sleep(2)  # the first poll after the start finds the retry topic
        producer = await cluster.start_producer()
        result = await producer.send("t", b"x")
        await anyio.sleep(1)
        await cluster.brokers[result.queue.broker_name].crash()
        slow.set()
        await anyio.sleep(30)
        again = [delivery for delivery in consumer.deliveries if delivery.times_delivered]
        assert [delivery.body for delivery in again] == [b"x"]
        assert again[0].message.queue.broker_name != result.queue.broker_name

    simulate(scenario, brokers=2)


@pytest.mark.parametrize("most_bytes", [MAX_PAYLOAD_BYTES, 1], ids=["", "nor a copy, which is larger than ours may be"])
def test_when_no_broker_takes_it_the_consumer_tries_again_itself(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        ready = anyio.Event()

        async def fails_at_first(message: MessageExt) -> None:
            if message.times_delivered == 0:
                await ready.wait()
                monkeypatch.setattr("model.message.MAX_PAYLOAD_BYTES", most_bytes)
                raise ValueError("nobody is there")

        consumer = await cluster.start_consumer("g", "t", work=fails_at_first, consume_retry_s=3.0)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(1)
        await cluster.brokers["broker-a"].crash()
        ready.set()
        await anyio.sleep(30)
        assert len(consumer.deliveries) == 1, "the broker has to confirm the lease first"
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(RECONNECT_MAX_S + 1)
        assert [(d.body, d.times_delivered) for d in consumer.deliveries] == [(b"x", 0), (b"x", 1)]
        assert consumer.deliveries[1].message.queue.topic == "t"

    simulate(scenario, brokers=1, trace=False)
