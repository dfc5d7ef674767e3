"""Recalls of RocketMQ 5's producers: a recalled message is never delivered, and every other one is, through kills."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import anyio
import pytest

from model.errors import RlabError
from remoting.address import parse_address
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, to_timestamp
from testbed.load.grpc import GrpcClientConnection
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.stock_consumers import Notes, start_stock
from tests.unit.rocketmq.grpc.grpc_client import message_of, send_of

pytestmark = pytest.mark.simulation

N = 60


class Recaller:
    """A producer of delayed messages; it sends to any broker, and asks any server for a recall.

    Attributes:
        sent, recalled: the bodies whose sends, and whose recalls, were answered with OK.
        in_doubt: bodies of sends and recalls without an answer.
    """

    def __init__(self, cluster: SimulatedCluster, chance: Random) -> None:
        self.sent: set[bytes] = set()
        self.recalled: set[bytes] = set()
        self.in_doubt: set[bytes] = set()
        self._cluster, self._chance = cluster, chance

    async def _ask(self, addresses: Sequence[str], rpc: str, request: Any) -> Any:
        """The answer of one of these servers. Raises: RlabError."""
        host, port = parse_address(self._chance.choice(addresses))
        with self._cluster.simulation.on_host("producer"):
            connection = await GrpcClientConnection.to_server(host, port)
        try:
            [answer] = await connection.ask(rpc, request, "producer@1", 3.0)
            return answer
        finally:
            connection.abort()

    async def send_and_recall(self, number: int) -> None:
        """Send a message, and recall two of three before it is due."""
        body, chance = b"%d" % number, self._chance
        brokers = [broker.address for broker in self._cluster.brokers.values()]
        due = to_timestamp(int(self._cluster.simulation.clock_ms()) + 6_000)
        named = {"message_id": f"{number:04}", "message_type": proto.DELAY, "delivery_timestamp": due}
        self.in_doubt.add(body)
        sent = await self._ask(brokers, "SendMessage", send_of(message_of(body, **named)))
        if sent.status.code != proto.OK:
            return
        self.sent.add(body)
        self.in_doubt.discard(body)
        if number % 3 == 0:
            return
        await anyio.sleep(chance.random() * 3)
        request = MESSAGES["RecallMessageRequest"](
            topic=MESSAGES["Resource"](name="t"), recall_handle=sent.entries[0].recall_handle
        )
        self.in_doubt.add(body)
        for _ in range(2):  # a client repeats one whose answer was lost
            with suppress(RlabError):
                found = await self._ask([*brokers, *self._cluster.addresses], "RecallMessage", request)
                if found.status.code == proto.OK:
                    self.recalled.add(body)
                    self.in_doubt.discard(body)
                    return
            await anyio.sleep(0.3)


@pytest.mark.parametrize("seed", range(6))
def test_a_recalled_message_is_never_delivered_and_every_other_one_is_while_brokers_are_killed(
    simulate: Simulate, seed: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        notes, chance = Notes(), Random(seed)
        await start_stock(cluster, notes)
        recaller = Recaller(cluster, chance)

        async def send(number: int) -> None:
            with suppress(RlabError):
                await recaller.send_and_recall(number)

        async def kill() -> None:
            for name in ("broker-a", "broker-b"):
                await anyio.sleep(2 + 3 * chance.random())
                await cluster.brokers[name].crash()
                await anyio.sleep(1)
                await cluster.brokers[name].start()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            for number in range(N):
                tasks.start_soon(send, number)
                await anyio.sleep(0.2)
        await anyio.sleep(40)
        assert len(recaller.sent) > N / 2
        assert len(recaller.recalled) > N / 4
        assert not recaller.recalled & set(notes.bodies), "delivered although it was recalled"
        assert recaller.sent - recaller.recalled - recaller.in_doubt <= set(notes.ended), "lost"

    simulate(scenario, brokers=2, seed=seed)
