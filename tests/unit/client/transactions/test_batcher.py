from __future__ import annotations

import anyio
import pytest

from model.errors import RlabError
from model.limits import ROWS_PER_REQUEST
from model.message import Message
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_transactions import Books
from tests.simulation.wire import WireTap, wire

__all__ = ["wire"]


def test_transactions_of_one_turn_share_requests_for_their_half_messages_and_for_their_ends(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_transaction_producer("p", Books().checker("p"))
        await producer.send("t", b"first")

        async def transact(body: bytes) -> None:
            async with producer.producer.transaction(Message("t", body)) as tx:
                if body == b"7":
                    tx.rollback()

        wire.sent.clear()
        with cluster.simulation.on_host(producer.host):
            async with anyio.create_task_group() as tasks:
                for n in range(64):
                    tasks.start_soon(transact, b"%d" % n)
        codes = [sent.code for sent in wire.sent]
        assert codes.count(RequestCode.SEND_HALF_MESSAGE) == 64 // ROWS_PER_REQUEST
        assert codes.count(RequestCode.END_TRANSACTION) == 64 // ROWS_PER_REQUEST
        await anyio.sleep(1)
        assert sorted(consumer.bodies) == sorted([b"first", *(b"%d" % n for n in range(64) if n != 7)])

    simulate(scenario, brokers=1)


def test_an_error_of_the_request_reaches_everyone_in_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_transaction_producer("p", Books().checker("p"), retries=0)
        await producer.send("t", b"first")
        failed = []

        async def transact() -> None:
            try:
                async with producer.producer.transaction(Message("t", b"x")):
                    pytest.fail("its half message is not stored")
            except RlabError as error:
                failed.append(error)

        broker = cluster.brokers["broker-a"].running.broker
        broker.transactions.table._max_open = 0
        with cluster.simulation.on_host(producer.host):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(transact)
        assert len({id(error) for error in failed}) == 3

    simulate(scenario, brokers=1)
