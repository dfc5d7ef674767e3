"""Lite pull consumers of a simulated cluster, each on a host of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from client.instance.registry import release_instance
from client.lite_pull.consumer import LitePullConsumer
from model.message_queue import MessageQueue
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

T = TypeVar("T")
Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


class Lite:
    """A lite pull consumer on a host of its own: what it is told to do is done from there."""

    def __init__(self, cluster: SimulatedCluster, host: str, **options: Any) -> None:
        self.cluster = cluster
        self.host = host
        made = {"clock_ms": cluster.simulation.clock_ms, "event_sink": cluster.record_event, "trace": False}
        self.consumer = LitePullConsumer(cluster.addresses, "g", **{**made, "instance_name": host, **options})

    async def do(self, what: Callable[..., Awaitable[T]], *args: Any) -> T:
        with self.cluster.simulation.on_host(self.host):
            return await what(*args)

    async def start(self, topic: str | None = "t") -> Lite:
        await self.do(self.consumer.start)
        if topic is not None:
            await self.do(self.consumer.subscribe, topic)
        return self

    async def poll(self, timeout_s: float = 1.0) -> list[int]:
        return [int(message.body) for message in await self.do(self.consumer.poll, timeout_s)]

    async def drain(self) -> list[int]:
        found: list[int] = []
        while polled := await self.poll():
            found += polled
        return found

    async def crash(self) -> None:
        """As `SimulatedConsumer.crash`."""
        instance = self.consumer._instance
        assert instance is not None
        with self.cluster.simulation.network.stall(self.host):
            self.cluster.simulation.network.cut(self.host)
            await self.consumer._background.stop()
            await release_instance(instance)


def run(
    simulate: Simulate, scenario: Callable[[SimulatedCluster], Awaitable[None]], queues: int = 1, brokers: int = 1
) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=queues)
        await scenario(cluster)

    main.__qualname__ = scenario.__qualname__
    simulate(main, brokers=brokers)


async def sent(cluster: SimulatedCluster, n: int, first: int = 0, queue: MessageQueue | None = None) -> None:
    if not cluster.producers:
        await cluster.start_producer()
    for number in range(first, first + n):
        await cluster.producers[0].send("t", b"%d" % number, queue=queue)
    await anyio.sleep(0.5)  # whoever waits for the first of them has got all


def committed(cluster: SimulatedCluster, queue: MessageQueue = Q0) -> int | None:
    rows = cluster.brokers["broker-a"].running.broker.leases.offsets.of_group("g")
    return {(topic, queue_id): offset for topic, queue_id, offset in rows}.get((queue.topic, queue.queue_id))


async def delete_topic(cluster: SimulatedCluster, topic: str = "t") -> None:
    """Delete a topic at every running broker."""
    with cluster.simulation.on_host("admin"):
        for broker in [each for each in cluster.brokers.values() if each.process]:
            await cluster._admin.request(broker.address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
