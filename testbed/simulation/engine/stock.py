"""The members of a programme that are clients of RocketMQ 5; they report their messages to the checkers.

They need the extra `grpc`, which is imported with the first of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from model.errors import ConfigError
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from rocketmq.grpc.lazy_dialect import is_installed
from testbed.load.body import number_of
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.checkers import Call, Checkers
from testbed.simulation.engine.programme import GroupPart

if TYPE_CHECKING:
    from testbed.simulation.cluster.stock import StockMember, StockMessage

Work = Callable[[int], Awaitable[bool]]
"""Works on the message with this number, and returns whether that does not fail."""


class _Reports:
    """What a member does with its messages; see `StockWork`."""

    def __init__(self, group: GroupPart, cluster: SimulatedCluster, checkers: Checkers, work: Work) -> None:
        self.client_id = ""
        self._group, self._cluster, self._checkers, self._work = group, cluster, checkers, work

    def received(self, message: StockMessage) -> None:
        place = message.queue, message.offset, message.key
        self._checkers.dispatched(Call(self._group.name, self.client_id, number_of(message.body), *place, message.body))

    async def consume(self, message: StockMessage) -> bool:
        return await self._work(number_of(message.body).number)

    def ending(self, message: StockMessage) -> None:
        self._checkers.pops[self._group.name].acknowledging(message.queue, message.offset)

    def ended(self, message: StockMessage) -> None:
        now = self._cluster.simulation.loop.time()
        self._checkers.pops[self._group.name].acknowledged(message.queue, message.offset, now)


async def start_stock_member(
    cluster: SimulatedCluster,
    group: GroupPart,
    slot: str,
    topic: str,
    number: int,
    checkers: Checkers,
    work: Work,
) -> StockMember:
    """Start the member of a slot, whose client id has this number: every second one is a push consumer.

    Raises:
        RlabError: no name server answers.

    Cancellation: it is not started.
    """
    from testbed.simulation.cluster.stock import StockMember

    reports = _Reports(group, cluster, checkers, work)
    is_push = group.stock_slots.index(slot) % 2 == 0
    member = StockMember(
        *(cluster.simulation, slot, group.name, topic, cluster.addresses, reports),
        is_push=is_push,
        invisible_s=group.invisible_s,
        grace_s=group.grace_s,
        number=number,
    )
    reports.client_id = member.client_id
    await member.start()
    cluster.poppers.append(member)
    return member


async def set_stock_group(cluster: SimulatedCluster, group: GroupPart, retry_delay_ms: int) -> None:
    """Store the attempts and pauses of a group, which clients of RocketMQ 5 take over from the brokers.

    Raises:
        ConfigError: the extra `grpc` is missing.
        RlabError: a broker does not answer.

    Cancellation: some brokers may have them.
    """
    if not is_installed():
        raise ConfigError("members that speak gRPC need the extra grpc: pip install 'rebalance-lab[grpc]'")
    header = {"group": group.name, "max_attempts": group.attempts - 1, "retry_delays_ms": [retry_delay_ms]}
    remoting = RemotingClient(rng=Random(0))
    try:
        with cluster.simulation.on_host("admin"):
            for broker in cluster.brokers.values():
                code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
                await remoting.request(broker.address, code, header)
    finally:
        await remoting.aclose()
