"""Client instances with a hand-made member in them, for tests of what an instance does for its consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio

from client.config import ClientConfig
from client.instance.instance import ClientInstance
from client.instance.member import GroupMember, Resident
from client.instance.schedule import RebalancePass
from model.errors import UsageError
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.names import retry_topic
from model.subscription import make_subscription
from testbed.simulation.cluster.cluster import SimulatedCluster


class FakeMember(GroupMember):
    """A consumer that only writes down what its instance tells it."""

    def __init__(self, group: str = "g", *topics: str, session_timeout_s: float = 120.0) -> None:
        self.group = group
        self.rebalance_interval_s = 20.0
        self.session_timeout_s = session_timeout_s
        self.present = True
        self.passes: list[RebalancePass] = []
        self.balanced = True
        self.on_pass: Callable[[], Any] = lambda: None
        self.persisted = 0
        self.failures: list[BaseException] = []
        self.refusals: list[UsageError] = []
        self._topics = topics or ("t",)

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted([*self._topics, retry_topic(self.group)]))

    def consumer_data(self) -> ConsumerData | None:
        if not self.present:
            return None
        return ConsumerData(
            group=self.group,
            consume_type=ConsumeType.PASSIVELY,
            model=MessageModel.CLUSTERING,
            consume_from=ConsumeFrom.LAST_OFFSET,
            strategy="AVG",
            session_timeout_s=self.session_timeout_s,
            subscriptions=tuple(make_subscription(topic, "*", 1) for topic in self.topics()),
        )

    async def rebalance(self, due: RebalancePass) -> bool:
        self.passes.append(due)
        result = self.on_pass()
        if result is not None:
            await result
        return self.balanced

    def refused(self, error: UsageError) -> None:
        self.refusals.append(error)

    async def persist_offsets(self) -> None:
        self.persisted += 1
        await anyio.lowlevel.checkpoint()

    def instance_failed(self, reason: BaseException) -> None:
        self.failures.append(reason)

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        raise AssertionError("a member without queues has none that could be reset")


class FakeProducer(Resident):
    """A producer that sends nothing."""

    def __init__(self, group: str = "p", *topics: str) -> None:
        self.group = group
        self._topics = topics

    def topics(self) -> tuple[str, ...]:
        return self._topics

    def instance_failed(self, reason: BaseException) -> None:
        raise AssertionError("no instance of these tests fails under a producer")


@asynccontextmanager
async def running_instance(cluster: SimulatedCluster, host: str = "c", **options: Any) -> AsyncIterator[ClientInstance]:
    """Run a client instance on a host of its own; what the block does, it does from there."""
    made: dict[str, Any] = {"instance_name": "1", "trace": False, **options}
    config = ClientConfig(
        name_servers=cluster.addresses,
        rng=Random(f"{host} {cluster.simulation.seed}"),
        clock_ms=cluster.simulation.clock_ms,
        event_sink=cluster.events.append,
        **made,
    )
    with cluster.simulation.on_host(host):
        instance = ClientInstance(config)
        await instance.start()
        try:
            yield instance
        finally:
            await instance.stop()


async def introduce(instance: ClientInstance, member: FakeMember) -> None:
    """What a consumer does when it starts."""
    instance.register(member)
    await instance.update_routes(member.topics())
    await instance.heartbeats.send()
    instance.start_rebalancing(member, "")
