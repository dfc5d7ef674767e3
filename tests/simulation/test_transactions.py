"""Transactions from end to end: commits, rollbacks, checks, restarts, and who is asked."""

from __future__ import annotations

from itertools import pairwise

import anyio
import pytest

from broker.transactions.table import TransactionOptions
from model.events import EventKind
from model.message import Message, MessageExt
from model.names import ABANDONED_TOPIC
from model.transaction import TransactionState
from testbed.simulation.cluster.clients import SimulatedConsumer, SimulatedTransactionProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


class Books:
    """The local books of a producer group: which messages it committed; and which it was asked about, by whom."""

    def __init__(self) -> None:
        self.committed: dict[str, None] = {}
        self.asked: list[tuple[str, bytes]] = []

    def checker(self, name: str, *answers: TransactionState):  # type: ignore[no-untyped-def]  # a check
        left = list(answers)

        async def check(message: MessageExt) -> TransactionState:
            self.asked.append((name, message.body))
            return left.pop(0) if left else COMMIT if message.message_id in self.committed else ROLLBACK

        return check


async def transact(producer: SimulatedTransactionProducer, body: bytes, end: TransactionState) -> str:
    """Run one transaction that ends so; returns the id of its message."""
    with producer.simulation.on_host(producer.host):
        async with producer.producer.transaction(Message("t", body)) as tx:
            if end is not COMMIT:
                tx.unknown() if end is UNKNOWN else tx.rollback()
    return tx.message_id


async def start(cluster: SimulatedCluster) -> tuple[Books, SimulatedTransactionProducer, SimulatedConsumer]:
    await cluster.create_topic("t", queues=2)
    consumer = await cluster.start_consumer("g", "t")
    books = Books()
    producer = await cluster.start_transaction_producer("p", books.checker("first"))
    await anyio.sleep(1)
    return books, producer, consumer


def open_transactions(cluster: SimulatedCluster) -> int:
    return sum(len(each.running.broker.transactions.table) for each in cluster.brokers.values())


def test_consumers_see_what_is_committed_and_never_what_is_rolled_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, consumer = await start(cluster)
        with producer.simulation.on_host(producer.host):
            async with producer.producer.transaction(Message("t", b"yes")):
                await anyio.sleep(1)
                assert consumer.bodies == [], "a half message is out of every consumer's sight"
            with pytest.raises(ZeroDivisionError):
                async with producer.producer.transaction(Message("t", b"no")):
                    raise ZeroDivisionError
        await anyio.sleep(60)
        assert consumer.bodies == [b"yes"]
        assert books.asked == [], "both were ended, so nobody was asked"
        assert open_transactions(cluster) == 0

    simulate(scenario)


def test_what_was_left_unknown_is_asked_about_after_six_seconds_and_then_every_thirty(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer("g", "t")
        books = Books()
        producer = await cluster.start_transaction_producer("p", books.checker("p", UNKNOWN, UNKNOWN, COMMIT))
        began = anyio.current_time()
        await transact(producer, b"m", UNKNOWN)
        await anyio.sleep(100)
        assert consumer.bodies == [b"m"]
        checks = [event for event in cluster.events if event.kind == EventKind.TRANSACTION_CHECKED]
        times = [event.t_ms / 1000 for event in checks]
        assert [round(after - before) for before, after in pairwise(times)] == [30, 30]
        assert [event.n for event in checks] == [1, 2, 3]
        assert 66 <= consumer.deliveries[0].time_s - began < 67

    simulate(scenario, brokers=1)


@pytest.mark.parametrize(("committed", "seen"), [(True, [b"m"]), (False, [])])
def test_another_member_ends_what_a_crashed_producer_has_begun(
    simulate: Simulate, committed: bool, seen: list[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, first, consumer = await start(cluster)
        message_id = await transact(first, b"m", UNKNOWN)
        if committed:
            books.committed[message_id] = None
        await first.crash()
        assert open_transactions(cluster) == 1
        await anyio.sleep(40)
        assert books.asked == [], "nobody can be asked"
        (waiting,) = [
            n for each in cluster.brokers.values() for n in each.running.broker.transactions.table.waiting().values()
        ]
        assert waiting == 1
        await cluster.start_transaction_producer("p", books.checker("second"))
        await anyio.sleep(2)
        assert books.asked == [("second", b"m")], "at once when it comes, and not at the next interval"
        assert consumer.bodies == seen
        assert open_transactions(cluster) == 0

    simulate(scenario)


def test_checks_go_to_another_member_each_time_and_to_none_of_another_group(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        books = Books()
        never = [UNKNOWN] * 20
        producers = [await cluster.start_transaction_producer("p", books.checker(f"p{n}", *never)) for n in range(3)]
        await cluster.start_transaction_producer("other", books.checker("other", *never))
        await cluster.start_producer(group="p")
        await transact(producers[1], b"m", UNKNOWN)
        await anyio.sleep(6 + 5 * 30 + 1)
        names = [name for name, _ in books.asked]
        assert names[0] == "p1", "the sender first"
        assert sorted(names[:3]) == ["p0", "p1", "p2"]
        assert names[3:] == names[:3]

    simulate(scenario, brokers=1)


def test_a_check_of_a_branch_that_still_runs_here_is_unknown_and_does_not_reach_the_user(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, consumer = await start(cluster)
        with producer.simulation.on_host(producer.host):
            async with producer.producer.transaction(Message("t", b"slow")):
                await anyio.sleep(50)
        await anyio.sleep(1)
        assert consumer.bodies == [b"slow"]
        assert books.asked == []

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_open_transactions_and_their_counts_survive_a_restart(simulate: Simulate, how: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        books = Books()
        producer = await cluster.start_transaction_producer("p", books.checker("p", UNKNOWN, UNKNOWN))
        await transact(producer, b"ended", COMMIT)
        message_id = await transact(producer, b"open", UNKNOWN)
        books.committed[message_id] = None
        await anyio.sleep(40)
        broker = cluster.brokers["broker-a"]
        await (broker.stop() if how == "stop" else broker.crash())
        await anyio.sleep(5)
        await broker.start()
        ((_, half),) = broker.running.broker.transactions.table
        assert half.checks == 2
        await anyio.sleep(40)
        assert sorted(consumer.bodies) == [b"ended", b"open"]
        assert open_transactions(cluster) == 0

    simulate(scenario, brokers=1)


def test_an_end_that_is_repeated_changes_nothing_even_after_a_restart(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        _, producer, consumer = await start(cluster)
        inside = producer.producer
        message_id = await transact(producer, b"m", COMMIT)
        for state in (COMMIT, ROLLBACK, UNKNOWN):
            with producer.simulation.on_host(producer.host):
                connection = inside._masters["broker-a"]
                row = (0, message_id, int(state))
                assert await inside._ends.end(connection, row, anyio.current_time() + 3) == 1
        await cluster.brokers["broker-a"].crash()
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(10)
        with producer.simulation.on_host(producer.host):
            connection = await inside._connection_to("broker-a", 3.0)
            rows = [(0, message_id, 8), (0, "another", 8), (1, message_id, 8)]
            ends = [inside._ends.end(connection, row, anyio.current_time() + 3) for row in rows]
            assert [await end for end in ends] == [1, 2, 2]
        await anyio.sleep(10)
        assert consumer.bodies == [b"m"]

    simulate(scenario, brokers=1)


def test_what_no_one_ends_goes_where_an_operator_finds_it_after_fifteen_checks(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        books = Books()
        producer = await cluster.start_transaction_producer("p", books.checker("p", *[UNKNOWN] * 99))
        await transact(producer, b"m", UNKNOWN)
        operator = await cluster.start_consumer("operator", ABANDONED_TOPIC)
        await anyio.sleep(6 + 15 * 30 + 60)
        assert len(books.asked) == 15
        assert operator.bodies == [b"m"]
        assert consumer.bodies == []
        (event,) = [event for event in cluster.events if event.kind == EventKind.TRANSACTION_GIVEN_UP]
        assert event.detail == "15 checks"
        assert event.cause == next(event.id for event in cluster.events if event.kind == EventKind.HALF_STORED)

    simulate(scenario, brokers=1)


def test_what_no_producer_can_be_asked_about_is_abandoned_after_its_time_without_a_check(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, _ = await start(cluster)
        await transact(producer, b"m", UNKNOWN)
        await producer.crash()
        await anyio.sleep(3 * 3600)
        assert open_transactions(cluster) == 0
        (event,) = [event for event in cluster.events if event.kind == EventKind.TRANSACTION_GIVEN_UP]
        assert event.detail == "age"
        assert books.asked == []

    simulate(scenario, brokers=1, transactions=TransactionOptions(keep_h=2))


def test_a_check_that_fails_or_says_nothing_is_unknown_and_is_redelivered(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        answers = iter([ZeroDivisionError, None, COMMIT])

        async def check(message: MessageExt) -> TransactionState:
            answer = next(answers)
            if answer is ZeroDivisionError:
                raise ZeroDivisionError
            return answer  # type: ignore[return-value]  # that is the test

        producer = await cluster.start_transaction_producer("p", check)
        await transact(producer, b"m", UNKNOWN)
        await anyio.sleep(5 + 3 * 30)
        assert consumer.bodies == [b"m"]

    simulate(scenario, brokers=1)
    assert sum("the check of group p failed" in record.message for record in caplog.records) == 2


def test_a_message_may_have_a_time_of_its_own_before_its_first_check(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        books, producer, _ = await start(cluster)
        with producer.simulation.on_host(producer.host):
            for after_s in (1, 20):
                message = Message("t", b"%d" % after_s)
                async with producer.producer.transaction(message, check_after_s=after_s) as tx:
                    tx.unknown()
        for passed_s, asked in ((0.9, []), (0.2, [b"1"]), (18.7, [b"1"]), (0.4, [b"1", b"20"])):
            await anyio.sleep(passed_s)
            assert [body for _, body in books.asked] == asked

    simulate(scenario, brokers=1)
