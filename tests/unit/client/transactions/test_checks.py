"""Checks as users write them; that they come at all, and to whom, is in tests/simulation/test_transactions.py."""

from __future__ import annotations

import anyio

from model.limits import MAX_RUNNING_CHECKS
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.transaction import TransactionState
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_transactions import UNKNOWN, open_transactions, transact


def test_a_check_may_be_a_plain_function_and_gets_the_whole_message(simulate: Simulate) -> None:
    got: list[MessageExt] = []

    def check(message: MessageExt) -> TransactionState:
        got.append(message)
        return TransactionState.COMMIT

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_transaction_producer("p", check)
        message_id = await transact(producer, b"m", UNKNOWN)
        await anyio.sleep(10)
        (message,) = got
        assert (message.topic, message.body, message.message_id, message.offset) == ("t", b"m", message_id, -1)
        assert message.queue == MessageQueue("t", "broker-a", 0)
        assert open_transactions(cluster) == 0

    simulate(scenario, brokers=1)


def test_no_more_checks_run_at_once_than_the_limit_and_all_are_answered(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        running = most = 0

        async def check(message: MessageExt) -> TransactionState:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await anyio.sleep(1)
            running -= 1
            return TransactionState.COMMIT

        producer = await cluster.start_transaction_producer("p", check)
        for n in range(3 * MAX_RUNNING_CHECKS):
            await transact(producer, b"%d" % n, UNKNOWN)
        await anyio.sleep(12)
        assert most == MAX_RUNNING_CHECKS
        assert open_transactions(cluster) == 0

    simulate(scenario, brokers=1)


def test_a_check_that_never_returns_is_not_run_again_beside_itself(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        calls = 0

        async def check(message: MessageExt) -> TransactionState:
            nonlocal calls
            calls += 1
            await anyio.sleep_forever()
            raise AssertionError

        producer = await cluster.start_transaction_producer("p", check)
        await transact(producer, b"m", UNKNOWN)
        await anyio.sleep(200)
        assert calls == 1
        await producer.stop()

    simulate(scenario, brokers=1)
