"""Observers of the parts of POP that calls of listeners do not show: acknowledgements, and hidden messages.

Only the answer of the broker shows that a message is acknowledged; a killed consumer may or may not have received it.

Members that are clients of RocketMQ 5 report all of their messages themselves. They need the extra `grpc`, which is
imported with the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

import anyio

from client.pop.requests import AckedByDelivery, Dead, PopRequests
from model.errors import ConfigError, RlabError
from model.limits import MAX_READ_FIRST, READ_FIRST_S
from model.message_queue import MessageQueue
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from rocketmq.grpc.lazy_dialect import is_installed
from testbed.load.body import read_number
from testbed.simulation.checks.pop import Place, PopCheck
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.checkers import Call, Checkers
from testbed.simulation.engine.programme import GroupPart

if TYPE_CHECKING:
    from testbed.simulation.cluster.stock import StockMember
    from testbed.simulation.cluster.stock_link import StockMessage

Work = Callable[[int], Awaitable[bool]]
"""Works on the message with this number, and returns whether that does not fail."""

POLL_S = 0.04
READS_FIRST_S = READ_FIRST_S * (MAX_READ_FIRST + 1)
"""How long a broker that stood still may read the requests that have arrived, before it ends invisible times."""


def watch_acknowledgements(requests: PopRequests, check: PopCheck, loop: asyncio.AbstractEventLoop) -> None:
    """Report every acknowledgement of a consumer to the check; two methods of `requests` are replaced for it."""
    shipped, shipped_start = requests.ack, requests.start_ack

    def begin(broker_name: str, acked: AckedByDelivery) -> Callable[[Dead], None]:
        every = [
            (MessageQueue(topic, broker_name, queue_id), offset)
            for (topic, queue_id, _), offsets in acked.items()
            for offset in offsets
        ]
        for queue, offset in every:
            check.acknowledging(queue, offset)

        def end(dead: Dead) -> None:
            now = loop.time()
            for queue, offset in every:
                if (queue.topic, queue.queue_id, offset) not in dead:
                    check.acknowledged(queue, offset, now)

        return end

    async def ack(broker_name: str, acked: AckedByDelivery) -> Dead:
        end = begin(broker_name, acked)
        dead = await shipped(broker_name, acked)
        end(dead)
        return dead

    def start_ack(broker_name: str, acked: AckedByDelivery, answered: Callable[[Dead | RlabError], None]) -> bool:
        end = begin(broker_name, acked)

        def note(outcome: Dead | RlabError) -> None:
            if not isinstance(outcome, RlabError):
                end(outcome)
            answered(outcome)

        return shipped_start(broker_name, acked, note)

    requests.ack, requests.start_ack = ack, start_ack  # type: ignore[method-assign]  # this object's, for its run


def count_unacknowledged(cluster: SimulatedCluster, group: str) -> dict[Place, int]:
    """How many messages of a group are invisible or to be delivered again, in each queue that has any."""
    counts = {
        (name, _in_words(*key)): queue.window.invisible + queue.window.due_count
        for name, server in cluster.brokers.items()
        if server.serves
        for key, queue in server.running.broker.pop.ledger.queues.items()
        if key.group == group
    }
    return {queue_and_group: n for queue_and_group, n in counts.items() if n}


def _in_words(group: str, topic: str, queue_id: int) -> str:
    return f"{group} {topic}:{queue_id}"


async def watch_brokers(cluster: SimulatedCluster, checks: Mapping[str, PopCheck]) -> None:
    """Report the invisible messages of all brokers to the checks, by group, every `POLL_S`. Cancellation: it ends."""
    simulation = cluster.simulation
    standstill = simulation.network.standstill
    while True:
        overdue_s: dict[str, dict[Place, float]] = {group: {} for group in checks}
        waited_for: dict[str, dict[Place, int]] = {group: {} for group in checks}
        now = simulation.loop.time()
        for name, server in cluster.brokers.items():
            if not server.serves or standstill.stands(host := server.process_host):
                continue  # it ends no invisible time while it stands still
            if now < standstill.went_on_at.get(host, float("-inf")) + READS_FIRST_S:
                continue
            with simulation.on_host(host):
                own_now = simulation.loop.time()
            pop = server.running.broker.pop
            for key, queue in pop.ledger.queues.items():
                if key.group not in checks:
                    continue
                if (deadline := queue.window.next_deadline()) is not None:
                    overdue_s[key.group][name, _in_words(*key)] = own_now - deadline
                if queue.window.due_count and pop.first_parked(key) is not None:
                    waited_for[key.group][name, _in_words(*key)] = queue.window.due_count
        for group, check in checks.items():
            check.check(overdue_s[group], waited_for[group], now)
        await anyio.sleep(POLL_S)


class _Reports:
    """What a member does with its messages; see `StockWork`."""

    def __init__(self, group: GroupPart, cluster: SimulatedCluster, checkers: Checkers, work: Work) -> None:
        self.client_id = ""
        self._group, self._cluster, self._checkers, self._work = group, cluster, checkers, work

    def received(self, message: StockMessage) -> None:
        position = message.queue, message.offset, message.key
        self._checkers.dispatched(
            Call(self._group.name, self.client_id, read_number(message.body), *position, message.body)
        )

    async def consume(self, message: StockMessage) -> bool:
        return await self._work(read_number(message.body).number)

    def acknowledging(self, message: StockMessage) -> None:
        self._checkers.pops[self._group.name].acknowledging(message.queue, message.offset)

    def settled(self, message: StockMessage) -> None:
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
