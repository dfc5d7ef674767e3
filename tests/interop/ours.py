"""Runs features of our client on the servers of an address, and prints a line "feature NAME OUTCOME" for each."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence

import anyio

from client import (
    LitePullConsumer,
    Message,
    MessageExt,
    MessageModel,
    MessageQueue,
    PopConsumer,
    Producer,
    PushConsumer,
)
from model.errors import MessageIllegal, RequestCodeNotSupported
from model.limits import MAX_BODY_BYTES
from model.subscription import Sql
from process.runtime import wait_until
from tests.interop import ours_admin  # noqa: F401 - more features
from tests.interop.kit import FIRST, TIMEOUT_S, Got, consuming, feature, main, rest, send, server


@feature("send, and properties")
async def _(topic: str, producer: Producer) -> None:
    sent = await producer.send(Message(topic, b"x", keys=("k1", "k2"), tags="red", properties={"colour": "grün"}))
    async with consuming(topic, got := Got()):
        await got.until(1)
    [one] = got
    assert (one.queue, one.offset, one.message_id) == (sent.queue, sent.offset, sent.message_id)
    assert (tuple(one.keys), one.tags, one.properties["colour"]) == (("k1", "k2"), "red", "grün")


@feature("64 sends at the same time")
async def _(topic: str, producer: Producer) -> None:
    async with anyio.create_task_group() as tasks:
        for n in range(64):
            tasks.start_soon(producer.send, Message(topic, b"%02d" % n))
    async with consuming(topic, got := Got()):
        assert await got.until(64) == [b"%02d" % n for n in range(64)]


@feature("send one-way")
async def _(topic: str, producer: Producer) -> None:
    await producer.send_oneway(Message(topic, b"x"))
    await send(producer, topic, b"y")
    async with consuming(topic, got := Got()):
        assert await got.until(2) == [b"x", b"y"]


@feature("batch")
async def _(topic: str, producer: Producer) -> None:
    results = await producer.send_batch([Message(topic, b"%d" % n, tags="t", keys=(f"k{n}",)) for n in range(10)])
    async with consuming(topic, got := Got()):
        assert await got.until(10) == [b"%d" % n for n in range(10)]
    assert {each.message_id for each in got} == {each.message_id for each in results}
    assert {each.tags for each in got} == {"t"}


@feature("order by selector")
async def _(topic: str, producer: Producer) -> None:
    for n in range(20):
        await producer.send(Message(topic, b"%02d" % n), key=f"key{n % 4}")
    queue = MessageQueue(topic, "broker-a", 1)
    assert (await producer.send(Message(topic, b"chosen"), queue=queue)).queue == queue
    async with consuming(topic, got := Got()):
        await got.until(21)
    places: dict[int, set[MessageQueue]] = {}
    for each in got[:]:
        if each.body != b"chosen":
            places.setdefault(int(each.body) % 4, set()).add(each.queue)
    assert all(len(queues) == 1 for queues in places.values())


@feature("delay level")
async def _(topic: str, producer: Producer) -> None:
    await producer.send(Message(topic, b"later"), delay_ms=5000)
    async with consuming(topic, got := Got()):
        await got.until(1)
    waited_ms = got[0].stored_ms - got[0].born_ms
    assert 4900 <= waited_ms < 8000, waited_ms


@feature("delay by any time (5), refused by name (4.9)")
async def _(topic: str, producer: Producer) -> None:
    try:
        await producer.send(Message(topic, b"later"), delay_ms=3500)
    except MessageIllegal:
        return
    began = time.time()
    async with consuming(topic, got := Got()):
        await got.until(1)
    assert 2.5 <= time.time() - began < 8


@feature("body of 4 MiB")
async def _(topic: str, producer: Producer) -> None:
    body = bytes(n * 7 % 251 for n in range(1 << 16)) * 64
    assert len(body) == MAX_BODY_BYTES
    await producer.send(Message(topic, body))
    async with consuming(topic, got := Got()):
        assert await got.until(1) == [body]


@feature("tags")
async def _(topic: str, producer: Producer) -> None:
    for tag in ("red", "green", "blue", ""):
        await producer.send(Message(topic, tag.encode() or b"none", tags=tag))
    async with consuming(topic, got := Got(), "red || blue"):
        assert await got.until(2) == [b"blue", b"red"]


@feature("SQL filter")
async def _(topic: str, producer: Producer) -> None:
    for price in range(20):
        message = Message(topic, b"%02d" % price, properties={"price": str(price)}, tags="even" if price % 2 else "odd")
        await producer.send(message)
    async with consuming(topic, got := Got(), Sql("price BETWEEN 5 AND 18 AND TAGS = 'even' AND price > 14")):
        assert await got.until(2) == [b"15", b"17"]
    async with LitePullConsumer(server, f"reader-{topic}", consume_from=FIRST) as reader:
        await reader.assign([MessageQueue(topic, "broker-a", n) for n in range(2)], {topic: Sql("price >= 19")})
        assert [each.body for each in await reader.poll(20)] == [b"19"]


@feature("retry")
async def _(topic: str, producer: Producer) -> None:
    async with consuming(topic, got := Got(b"fails"), retry_delay_ms=1000):
        await send(producer, topic, b"fails", b"works")
        assert await got.until(2) == [b"fails", b"works"]
    assert [(each.topic, each.times_delivered) for each in got if each.body == b"fails"] == [(topic, 1)]


@feature("dead letter")
async def _(topic: str, producer: Producer) -> None:
    group = f"g-{topic}"
    async with consuming(topic, Got(b"bad"), max_attempts=0):
        await send(producer, topic, b"bad")
        await rest(4)
    async with LitePullConsumer(server, f"reader-{topic}", consume_from=FIRST) as reader:
        await reader.assign([MessageQueue(f"%DLQ%{group}", "broker-a", 0)])
        assert [each.body for each in await reader.poll(20)] == [b"bad"]


@feature("order by queue")
async def _(topic: str, producer: Producer) -> None:
    async with consuming(topic, got := Got(), order="queue", suspend_s=0.1):
        for n in range(40):
            await producer.send(Message(topic, b"%02d" % n), key=f"key{n % 2}")
        await got.until(40)
    for queue in {each.queue for each in got}:
        bodies = [each.body for each in got if each.queue == queue]
        assert bodies == sorted(bodies)


@feature("order: a failed message holds its queue")
async def _(topic: str, producer: Producer) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    tries: list[bytes] = []

    def listen(messages: Sequence[MessageExt]) -> None:
        tries.extend(each.body for each in messages)
        if tries.count(b"0") < 3 and messages[0].body == b"0":
            raise ValueError("not yet")

    async with PushConsumer(server, f"g-{topic}", order="queue", suspend_s=0.2, consume_from=FIRST) as consumer:
        await consumer.subscribe(topic, listen)
        for n in range(3):
            await producer.send(Message(topic, b"%d" % n), queue=queue)
        await wait_until(lambda: len(tries) >= 5, TIMEOUT_S, 0.05)
    assert tries == [b"0", b"0", b"0", b"1", b"2"]


@feature("broadcasting")
async def _(topic: str, producer: Producer) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = {"model": MessageModel.BROADCASTING, "offsets_dir": folder}
        first, second = Got(), Got()
        async with (
            consuming(topic, first, instance_name="one", **options),
            consuming(topic, second, instance_name="two", **options),
        ):
            await send(producer, topic, *(b"%d" % n for n in range(6)))
            assert await first.until(6) == await second.until(6)
        again = Got()
        async with consuming(topic, again, instance_name="one", **options):
            await send(producer, topic, b"more")
            assert await again.until(1) == [b"more"]


@feature("two members share the queues")
async def _(topic: str, producer: Producer) -> None:
    async with consuming(topic, one := Got()) as first, consuming(topic, two := Got()) as second:
        await wait_until(lambda: len(first.queues) == len(second.queues) > 0, TIMEOUT_S, 0.05)
        await send(producer, topic, *(b"%d" % n for n in range(40)))
        await wait_until(lambda: len(one) + len(two) >= 40, TIMEOUT_S, 0.05)
        assert len(one) + len(two) == 40
        assert one
        assert two


@feature("goes on where it left")
async def _(topic: str, producer: Producer) -> None:
    await send(producer, topic, b"one")
    async with consuming(topic, got := Got()):
        await got.until(1)
    await send(producer, topic, b"two")
    async with consuming(topic, got := Got()):
        assert await got.until(1) == [b"two"]


@feature("offset of a time")
async def _(topic: str, producer: Producer) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    await producer.send(Message(topic, b"before"), queue=queue)
    await rest(2)
    now_ms = int(time.time() * 1000)
    await rest(1)
    await producer.send(Message(topic, b"after"), queue=queue)
    async with LitePullConsumer(server, f"g-{topic}", auto_commit=False) as reader:
        await reader.assign([queue])
        found = await reader.offset_for_timestamp(queue, now_ms)
    assert found == 1, found


@feature("lite pull: subscribe, commit, seek")
async def _(topic: str, producer: Producer) -> None:
    await send(producer, topic, *(b"%d" % n for n in range(10)))
    async with LitePullConsumer(server, f"g-{topic}", consume_from=FIRST, auto_commit=False) as consumer:
        await consumer.subscribe(topic)
        got: list[MessageExt] = []
        with anyio.fail_after(TIMEOUT_S):
            while len(got) < 10:
                got += await consumer.poll(1)
        await consumer.commit()
        queue = got[0].queue
        assert await consumer.committed(queue) == sum(each.queue == queue for each in got)
        await consumer.seek(queue, 0)
        assert (await consumer.poll(10))[0].offset == 0


@feature("lite pull: assign")
async def _(topic: str, producer: Producer) -> None:
    await send(producer, topic, *(b"%d" % n for n in range(10)))
    async with LitePullConsumer(server, f"g-{topic}", consume_from=FIRST) as consumer:
        await consumer.assign([MessageQueue(topic, "broker-a", 1)])
        got: list[MessageExt] = []
        with anyio.fail_after(TIMEOUT_S):
            while len(got) < 5:
                got += await consumer.poll(1)
        assert {each.queue.queue_id for each in got} == {1}


@feature("POP: acknowledged, again, longer (5), refused by name (4.9)")
async def _(topic: str, producer: Producer) -> None:
    async with PopConsumer(server, f"g-{topic}", consume_from=FIRST) as consumer:
        await consumer.subscribe(topic)
        await send(producer, topic, b"ack", b"again", b"longer")
        times: dict[bytes, int] = {}
        done: list[bytes] = []
        with anyio.fail_after(TIMEOUT_S):
            while sorted(done) != [b"ack", b"again", b"longer"]:
                try:
                    messages = await consumer.receive(wait_s=2, invisible_s=6)
                except RequestCodeNotSupported:
                    return
                for message in messages:
                    times[message.body] = times.get(message.body, 0) + 1
                    if message.body == b"again" and times[b"again"] == 1:
                        continue
                    if message.body == b"longer" and times[b"longer"] == 1:
                        await consumer.extend(message, 2)
                        continue
                    await consumer.ack(message)
                    done.append(message.body)
    assert times == {b"ack": 1, b"again": 2, b"longer": 2}


@feature("POP with listeners (5)")
async def _(topic: str, producer: Producer) -> None:
    got = Got()
    try:
        async with PopConsumer(server, f"probe-{topic}") as probe:
            await probe.subscribe(topic)
            await probe.receive(wait_s=0.1)
    except RequestCodeNotSupported:
        return
    async with consuming(topic, got, mode="pop"):
        await send(producer, topic, *(b"%02d" % n for n in range(30)))
        assert await got.until(30) == [b"%02d" % n for n in range(30)]


if __name__ == "__main__":
    logging.disable()  # listeners fail on purpose
    anyio.run(main)
