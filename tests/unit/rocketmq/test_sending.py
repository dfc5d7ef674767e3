"""Sends of stock clients: what is stored, how it is answered, what is refused."""

from __future__ import annotations

import zlib
from base64 import b64decode

import pytest

from model.decode import decode_messages
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.response_code import ResponseCode
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.message import split_physical_offset
from tests.unit.broker.harness import Peer, World, simulated
from tests.unit.rocketmq.stock_client import StockClient

PROPERTIES = "TAGS\x01red\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02mine\x01ü"


async def read(peer: Peer, topic: str = "t", queue_id: int = 0) -> list[MessageExt]:
    body = (await peer.pull(topic, queue_id)).body or b""
    return list(decode_messages(MessageQueue(topic, "broker-a", queue_id), body, []))


@simulated
async def test_a_message_of_a_stock_producer_is_an_ordinary_message_for_our_consumers(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    answer = await client.send(b"hello", queue_id=1, i=PROPERTIES)
    fields = answer.fields
    assert (answer.code, fields["queueId"], fields["queueOffset"], fields["transactionId"]) == (0, "1", "0", "ID")
    assert fields["msgId"].startswith("0A00000100002A9F")
    assert split_physical_offset(int(fields["msgId"][16:], 16))[1:] == (1, 0)
    [message] = await read(world.peer("a"), queue_id=1)
    assert (message.body, message.tags, list(message.keys)) == (b"hello", "red", ["k1", "k2"])
    assert (message.message_id, message.properties, message.born_ms) == ("ID", {"mine": "ü"}, 1000)


@simulated
async def test_the_long_names_of_a_send_mean_the_same(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    header = {"producerGroup": "p", "topic": "t", "queueId": 0, "sysFlag": 0, "bornTimestamp": 5, "flag": 0}
    assert (await client.call(10, {**header, "properties": PROPERTIES}, b"x")).code == 0
    [message] = await read(world.peer("a"))
    assert (message.tags, message.born_ms) == ("red", 5)


@simulated
async def test_a_compressed_body_is_stored_as_it_was_before(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.send(zlib.compress(b"x" * 9000), f=0x301)
    [message] = await read(world.peer("a"))
    assert message.body == b"x" * 9000


@simulated
async def test_a_batch_is_stored_in_its_order_and_answered_with_an_id_for_each(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    entry = bytes.fromhex("0000001f 00000000 00000000 00000000 00000002 6869 0007 54414753016102")
    header = {"b": "t", "e": 0, "f": 0, "g": 1, "h": 0, "i": "WAIT\x01true\x02", "m": "true"}
    for code in (320, 310):
        answer = await client.call(code, header, entry * 3)
        assert answer.code == 0
        assert len(answer.fields["msgId"].split(",")) == 3
    cpp = {
        "producerGroup": "p",
        "topic": "t",
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": "1",
        "flag": 0,
        "batch": "1",
    }
    assert (await client.call(10, cpp, entry * 3)).code == 0
    messages = await read(world.peer("a"))
    assert [message.offset for message in messages] == list(range(9))
    assert {(message.body, message.tags) for message in messages} == {(b"hi", "a")}


@pytest.mark.parametrize(
    ("properties", "delay_s"),
    [("DELAY\x013", 10), ("TIMER_DELAY_SEC\x017", 7), ("TIMER_DELAY_MS\x01400", 0.4), ("TIMER_DELIVER_MS\x01{}", 5)],
)
@simulated
async def test_a_delay_is_kept_however_the_client_says_it(world: World, properties: str, delay_s: float) -> None:
    await world.start_broker()
    client, peer = await StockClient.connect(world), world.peer("a")
    until_ms = int(world.simulation.clock_ms()) + 5000
    answer = await client.send(i=properties.format(until_ms))
    assert answer.code == 0
    await world.sleep(delay_s - 0.1)
    assert await read(peer) == []
    await world.sleep(0.2)
    [message] = await read(peer)
    assert "DELAY" not in message.properties


@simulated
async def test_a_delayed_message_is_recalled_by_the_handle_that_its_send_was_answered_with(world: World) -> None:
    await world.start_broker()
    client, peer = await StockClient.connect(world), world.peer("a")
    sent = await client.send(i="TIMER_DELAY_MS\x015000\x02UNIQ_KEY\x01ID")
    handle = sent.fields["recallHandle"]
    assert b64decode(handle, b"-_").split(b" ")[:3] == [b"v1", b"t", b"broker-a"]
    for _ in range(2):
        answer = await client.call(RequestCode.RECALL_MESSAGE, {"topic": "t", "recallHandle": handle})
        assert (answer.code, answer.fields["msgId"]) == (0, "ID")
    assert (await client.call(RequestCode.RECALL_MESSAGE, {"topic": "t", "recallHandle": "x"})).code != 0
    await world.sleep(6)
    assert await read(peer) == []
    assert "recallHandle" not in (await client.send()).fields


@simulated
async def test_a_topic_of_delayed_messages_takes_a_time_of_the_past_and_nothing_without_a_time(world: World) -> None:
    await world.start_broker()
    client, peer = await StockClient.connect(world), world.peer("a")
    await peer.put_topic(read=1, message_type=MessageType.DELAY)
    assert (await client.send(b"past", i="TIMER_DELIVER_MS\x011")).code == 0
    refused = await client.send(b"plain")
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert "topic 't' takes DELAY messages only, and this is a NORMAL message" in (refused.remark or "")
    await world.sleep(1)
    assert [message.body for message in await read(peer)] == [b"past"]


@simulated
async def test_a_copy_of_a_failed_message_keeps_its_topic_and_its_number_of_tries(world: World) -> None:
    await world.start_broker()
    client, peer = await StockClient.connect(world), world.peer("a")
    await client.heartbeat()
    await client.send(topic="%RETRY%g", j=2, l=16, i="RETRY_TOPIC\x01t\x02DELAY\x011")
    await client.send(topic="%RETRY%g", j=17, l=16, i="RETRY_TOPIC\x01t")
    await world.sleep(2)
    [again], [dead] = await read(peer, "%RETRY%g"), await read(peer, "%DLQ%g")
    assert (again.topic, again.times_delivered, dead.topic) == ("t", 2, "t")


@simulated
async def test_a_queue_below_zero_leaves_the_choice_to_the_broker(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.send()
    assert {(await client.send(queue_id=-1)).fields["queueId"] for _ in range(8)} == {"0", "1", "2", "3"}


@simulated
async def test_a_message_without_an_id_gets_one_of_32_digits(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    ids = {(await client.send()).fields["transactionId"] for _ in range(3)}
    assert {len(message_id) for message_id in ids} == {32}
    assert len(ids) == 3


@simulated
async def test_what_cannot_be_kept_is_refused_as_illegal_which_clients_do_not_try_again(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    for more, text in (({"f": 0x101}, "ZLIB"), ({"body": b""}, "body has 0 bytes")):
        refused = await client.send(**more)
        assert (refused.code, text in (refused.remark or "")) == (13, True)
    assert (await client.send(topic="no good")).code == 29
    assert (await client.send(queue_id=4)).code == 29
