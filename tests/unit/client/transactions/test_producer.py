from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from broker.config import Part
from client import Message, Producer, TransactionProducer
from model.errors import (
    ConfigError,
    IllegalOperation,
    InvalidParameter,
    MessageIllegal,
    RequestCodeNotSupported,
    RequestTimeout,
    TransactionLost,
)
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_transactions import COMMIT, UNKNOWN, Books, open_transactions, start, transact

MESSAGE = Message("t", b"x")


def made(**options: Any) -> TransactionProducer:
    return TransactionProducer("127.0.0.1:9876", "p", **{"check": Books().checker("p"), **options})


@pytest.mark.parametrize(
    ("message", "options", "error", "says"),
    [
        ([MESSAGE], {}, MessageIllegal, "one message, got list: the messages of a batch"),
        (MESSAGE, {"delay_ms": 5}, IllegalOperation, "delay_ms and a transaction exclude each other: a delayed"),
        (MESSAGE, {"oneway": True}, IllegalOperation, "oneway and a transaction .* a one-way send learns nothing"),
        (MESSAGE, {"colour": 1}, IllegalOperation, "colour .* transactions have no such option"),
        (MESSAGE, {"check_after_s": 0}, IllegalOperation, "check_after_s must be more than 0"),
        (MESSAGE, {"check_after_s": 3601}, IllegalOperation, "up to 3600"),
        (MESSAGE, {"check_after_s": "5"}, IllegalOperation, "check_after_s must be more than 0"),
        (MESSAGE, {"key": 5}, InvalidParameter, "key must be a string, got 5"),
        (MESSAGE, {"queue": "t"}, InvalidParameter, "must be a MessageQueue"),
        (MESSAGE, {"queue": MessageQueue("other", "broker-a", 0)}, InvalidParameter, "of another topic"),
        (Message("t", b""), {}, MessageIllegal, "0 bytes"),
    ],
)
def test_what_no_transaction_can_have_is_refused_with_the_reason(
    message: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        made().transaction(message, **options)


def test_a_check_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="check must be a function"):
        made(check=None)


@pytest.mark.asyncio
async def test_a_transaction_of_a_producer_that_is_not_running_is_refused() -> None:
    with pytest.raises(IllegalOperation, match="use it inside 'async with'"):
        async with made().transaction(MESSAGE):
            pass


@pytest.mark.asyncio
async def test_a_start_that_is_cancelled_leaves_no_task_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = asyncio.Event()

    async def wait(_: Producer) -> None:
        waiting.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(Producer, "_connect", wait)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made().start)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_broker_without_transactions_refuses_before_the_local_branch_runs(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        _, producer, _ = await start(cluster)
        with producer.simulation.on_host(producer.host), pytest.raises(RequestCodeNotSupported):
            async with producer.producer.transaction(MESSAGE):
                pytest.fail("nothing is stored")

    simulate(scenario, brokers=1, parts=frozenset(Part) - {Part.TRANSACTIONS})


def test_a_half_message_without_an_answer_is_not_sent_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, consumer = await start(cluster)
        await producer.send("t", b"first")
        network = cluster.simulation.network
        faults = [network.partition(name, producer.host, one_way=True) for name in cluster.brokers]
        with producer.simulation.on_host(producer.host), pytest.raises(RequestTimeout):
            async with producer.producer.transaction(MESSAGE):
                pytest.fail("nobody knows whether it is stored")
        for fault in faults:
            fault.heal()
        assert open_transactions(cluster) == 1, "it is, once"
        await anyio.sleep(40)
        assert books.asked == [("first", b"x")]
        assert open_transactions(cluster) == 0
        assert consumer.bodies == [b"first"]

    simulate(scenario)


def test_a_half_message_that_was_certainly_not_stored_goes_to_another_broker(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        _, producer, consumer = await start(cluster)
        for _ in range(4):
            await transact(producer, b"before", COMMIT)
        cluster.brokers["broker-a"].running.broker.transactions.table._max_open = 0
        for n in range(8):
            await transact(producer, b"%d" % n, COMMIT)
        await anyio.sleep(1)
        assert len(consumer.bodies) == 12

    simulate(scenario)


def test_an_end_that_cannot_be_reported_is_left_to_the_check_and_raises_nothing(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, consumer = await start(cluster)
        with producer.simulation.on_host(producer.host):
            async with producer.producer.transaction(MESSAGE) as tx:
                books.committed[tx.message_id] = None
                await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(20)
        assert consumer.bodies == [b"x"]

    simulate(scenario, brokers=1)
    assert "left to the check" in caplog.text


def test_a_commit_of_a_message_that_is_gone_says_what_to_do(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        _, producer, _ = await start(cluster)
        with producer.simulation.on_host(producer.host), pytest.raises(TransactionLost, match="send the message again"):
            async with producer.producer.transaction(MESSAGE) as tx:
                tx.offset += 1
        assert producer.producer._begun == {}

    simulate(scenario, brokers=1)


def test_a_producer_that_is_started_twice_refuses_and_goes_on_answering_checks(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, _ = await start(cluster)
        with producer.simulation.on_host(producer.host), pytest.raises(IllegalOperation, match="RUNNING: make a new"):
            await producer.producer.start()
        await transact(producer, b"m", UNKNOWN)
        await anyio.sleep(10)
        assert books.asked == [("first", b"m")]

    simulate(scenario)


def test_a_shutdown_leaves_what_is_open_to_the_next_producer_of_the_group(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, _ = await start(cluster)
        await transact(producer, b"m", UNKNOWN)
        await producer.stop()
        await producer.stop()
        await anyio.sleep(10)
        await cluster.start_transaction_producer("p", books.checker("next"))
        await anyio.sleep(3)
        assert books.asked == [("next", b"m")]

    simulate(scenario)
