"""Features of our client on RocketMQ's servers: administration, and transactions."""

from __future__ import annotations

import anyio

from client import (
    Admin,
    Message,
    MessageExt,
    Producer,
    TransactionProducer,
    TransactionState,
)
from model.offset_reset import ResetTo
from process.runtime import wait_until
from tests.interop.kit import TIMEOUT_S, Got, consuming, feature, rest, server


@feature("admin: topics, groups, progress, reset, message by key")
async def _(topic: str, producer: Producer) -> None:
    group = f"g-{topic}"
    await producer.send(Message(topic, b"x", keys=("k7",)))
    async with consuming(topic, got := Got()), Admin(server) as admin:
        await got.until(1)
        await rest(1)
        info = await admin.group(group)
        assert len(info.members) == 1
        assert group in {each.group for each in await admin.groups()}
    async with Admin(server) as admin:
        assert sum(each.committed or 0 for each in await admin.progress(group) if each.queue.topic == topic) == 1
        assert sum(each.after for each in await admin.reset_offsets(group, topic, ResetTo.earliest())) == 0
        found = await admin.query_message(topic, "k7")
        assert [each.message.body for each in found.messages] == [b"x"]
        await admin.create_topic(f"{topic}-gone", 1)
        await admin.delete_topic(f"{topic}-gone")
        assert f"{topic}-gone" not in await admin.topics()
    async with consuming(topic, got := Got()):
        assert await got.until(1) == [b"x"], "the group begins anew after the reset"


@feature("admin: show and scale a topic")
async def _(topic: str, producer: Producer) -> None:
    for n in range(4):
        await producer.send(Message(topic, b"%d" % n))
    async with Admin(server) as admin:
        await admin.scale_topic(topic, read=5, write=5)
        [info] = [await admin.broker_info(each.broker_name) for each in (await admin.route(topic)).queues]
        found = info.topic(topic)
    assert found is not None
    assert (found.config.read_queue_nums, found.config.write_queue_nums, len(found.ranges)) == (5, 5, 5)
    assert sum(each.max_offset for each in found.ranges) == 4


@feature("admin: message by id, with its retry")
async def _(topic: str, producer: Producer) -> None:
    sent = await producer.send(Message(topic, b"fails"))
    async with consuming(topic, got := Got(b"fails"), retry_delay_ms=1000), Admin(server) as admin:
        await got.until(1)
        found = await admin.view_message(sent.message_id)
    topics = sorted(each.message.queue.topic for each in found.messages)
    assert topics == sorted((topic, f"%RETRY%g-{topic}")), topics
    assert {each.message.body for each in found.messages} == {b"fails"}


@feature("admin: owners of queues")
async def _(topic: str, producer: Producer) -> None:
    async with (
        consuming(topic, Got()) as first,
        consuming(topic, Got(), order="queue") as second,
        Admin(server) as admin,
    ):
        await wait_until(lambda: len(first.queues) == len(second.queues) > 0, TIMEOUT_S, 0.05)
        await rest(1)
        for consumer in (first, second):
            queues = await admin.progress(f"g-{topic}")
            owned = {each.queue for each in queues if each.owner == consumer.client_id}
            assert {each for each in consumer.queues if each.topic == topic} <= owned, owned


@feature("transaction: commit and rollback")
async def _(topic: str, producer: Producer) -> None:
    def never(message: MessageExt) -> TransactionState:
        return TransactionState.ROLLBACK

    async with TransactionProducer(server, f"p-{topic}", check=never) as transactions:
        async with transactions.transaction(Message(topic, b"committed", keys=("k",), tags="t")):
            pass
        async with transactions.transaction(Message(topic, b"rolled back")) as one:
            one.rollback()
        async with anyio.create_task_group() as tasks:
            for n in range(10):
                tasks.start_soon(_commit, transactions, Message(topic, b"%d" % n))
    async with consuming(topic, got := Got()):
        assert await got.until(11, more_s=1) == [*(b"%d" % n for n in range(10)), b"committed"]
    [one_got] = [each for each in got if each.body == b"committed"]
    assert (one_got.tags, tuple(one_got.keys)) == ("t", ("k",))


async def _commit(transactions: TransactionProducer, message: Message) -> None:
    async with transactions.transaction(message):
        pass


@feature("transaction: unknown, then checked")
async def _(topic: str, producer: Producer) -> None:
    asked: list[bytes] = []

    def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        if len(asked) == 1:
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if message.body == b"yes" else TransactionState.ROLLBACK

    async with TransactionProducer(server, f"p-{topic}", check=check) as transactions:
        for body in (b"yes", b"no"):
            async with transactions.transaction(Message(topic, body), check_after_s=1) as one:
                one.unknown()
        async with consuming(topic, got := Got()):
            assert await got.until(1, more_s=3) == [b"yes"]
    assert set(asked) == {b"yes", b"no"}
