"""Our clients in RocketMQ's protocol send and consume as in their own, and members of both kinds are one group."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from client.admin.admin import Admin
from model.errors import MessageIllegal
from model.heartbeat import ConsumeFrom
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from model.transaction import TransactionState
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation
FIRST = ConsumeFrom.FIRST_OFFSET


def test_every_kind_of_send_arrives_as_it_was_sent(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        got: dict[bytes, MessageExt] = {}
        failed: list[bytes] = []

        def listen(messages: Sequence[MessageExt]) -> None:
            for message in messages:
                if message.body == b"fails once" and not message.times_delivered:
                    failed.append(message.body)
                    raise ValueError("not yet")
                got[message.body] = message

        await cluster.start_consumer("g", "t", dialect="rocketmq", consume_from=FIRST, listener=listen)
        producer = (await cluster.start_producer(dialect="rocketmq")).producer
        sent = await producer.send(Message("t", b"one", keys=("k1", "k2"), tags="red", properties={"colour": "grün"}))
        await producer.send_batch([Message("t", b"b%d" % n, tags="blue") for n in range(3)])
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(producer.send, Message("t", b"together %d" % n))
        await producer.send(Message("t", b"later"), delay_ms=5000)
        with pytest.raises(MessageIllegal, match="not by 1234 ms"):
            await producer.send(Message("t", b"at any time"), delay_ms=1234)  # brokers here say that they are 4.9.4
        await producer.send(Message("t", b"fails once"))
        await anyio.sleep(40)
        assert len(got) == 26
        assert failed == [b"fails once"]
        one = got[b"one"]
        assert (one.queue, one.offset, one.message_id) == (sent.queue, sent.offset, sent.message_id)
        assert (tuple(one.keys), one.tags, one.properties["colour"]) == (("k1", "k2"), "red", "grün")
        assert got[b"fails once"].topic == "t"
        assert 5000 <= got[b"later"].stored_ms - got[b"later"].born_ms < 5500

    simulate(scenario, brokers=1, seed=3)


def test_members_of_both_protocols_share_the_queues_and_each_message_has_one_of_them(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        producer = await cluster.start_producer(dialect="rocketmq")
        bodies: list[bytes] = []

        def listen(messages: Sequence[MessageExt]) -> None:
            bodies.extend(message.body for message in messages)

        members = [
            await cluster.start_consumer("g", "t", dialect=dialect, consume_from=FIRST, listener=listen)
            for dialect in ("rocketmq", "rlab", "rocketmq")
        ]
        await anyio.sleep(25)
        queues = [set(member.queues) for member in members]
        assert sorted(map(len, queues)) == [2, 3, 3]
        assert sum(map(len, queues)) == len(set.union(*queues)) == 8
        for n in range(100):
            await producer.producer.send(Message("t", b"%d" % n))
        await members[0].crash()
        await anyio.sleep(45)
        assert len({*bodies}) == 100
        assert sorted(len(member.queues) for member in members[1:]) == [4, 4]

    simulate(scenario, brokers=2, seed=4)


def test_members_in_order_take_over_by_locks_and_nothing_is_lost_or_out_of_order(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=3)
        producer = (await cluster.start_producer(dialect="rocketmq")).producer
        got: dict[str, list[int]] = {}
        handled: list[int] = []

        async def listen(messages: Sequence[MessageExt]) -> None:
            await anyio.sleep(0.01)
            for message in messages:
                handled.append(message.offset)
                got.setdefault(str(message.queue), []).append(message.offset)

        members = [
            await cluster.start_consumer(
                "g", "t", dialect=dialect, order="queue", consume_from=FIRST, listener=listen, session_timeout_s=90
            )
            for dialect in ("rocketmq", "rlab", "rocketmq")
        ]
        assert members[0].consumer.session_timeout_s == 30
        for n in range(150):
            await producer.send(Message("t", b"%d" % n))
            if n in (50, 100):
                await members[n // 50 - 1].stop()
                await anyio.sleep(25)
        await anyio.sleep(60)
        assert sorted(members[2].queues) == [MessageQueue("t", "broker-a", n) for n in range(3)]
        assert len(handled) == 150
        assert all(offsets == list(range(len(offsets))) for offsets in got.values())

    simulate(scenario, brokers=1, seed=6)


def test_a_member_recovers_from_a_broker_that_is_killed_and_from_a_topic_that_grows(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        bodies: list[bytes] = []
        member = await cluster.start_consumer(
            "g",
            "t",
            dialect="rocketmq",
            consume_from=FIRST,
            listener=lambda messages: bodies.extend(each.body for each in messages),
        )
        producer = (await cluster.start_producer(dialect="rocketmq")).producer
        await producer.send(Message("t", b"before"))
        await anyio.sleep(2)
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(5)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(40)
        await producer.send(Message("t", b"after"), queue=MessageQueue("t", "broker-a", 0))
        await anyio.sleep(5)
        assert {*bodies} == {b"before", b"after"}
        async with Admin(cluster.addresses) as admin:
            await admin.scale_topic("t", read=5, write=5)
        await anyio.sleep(60)
        assert len(member.queues) == 5

    simulate(scenario, brokers=1, seed=5)


def test_transactions_are_committed_rolled_back_and_checked(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        got: list[bytes] = []
        asked: list[tuple[bytes, str]] = []

        def check(message: MessageExt) -> TransactionState:
            asked.append((message.body, message.tags))
            if len(asked) == 1:
                return TransactionState.UNKNOWN
            return TransactionState.COMMIT

        def listen(messages: Sequence[MessageExt]) -> None:
            got.extend(each.body for each in messages)

        await cluster.start_consumer("g", "t", consume_from=FIRST, listener=listen)
        producer = (await cluster.start_transaction_producer("tx", check, dialect="rocketmq")).producer
        async with producer.transaction(Message("t", b"committed")):
            pass
        async with producer.transaction(Message("t", b"rolled back")) as one:
            one.rollback()
        async with producer.transaction(Message("t", b"checked", tags="red"), check_after_s=2) as one:
            one.unknown()
        await anyio.sleep(120)
        assert sorted(got) == [b"checked", b"committed"]
        assert asked == [(b"checked", "red")] * 2

    simulate(scenario, brokers=1, seed=5)
