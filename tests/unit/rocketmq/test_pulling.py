"""Pulls of stock consumers, messages that they send back, and their questions about offsets."""

from __future__ import annotations

from typing import Any

from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.stock_client import StockClient, messages_of

QUEUE = {"consumerGroup": "g", "topic": "t", "queueId": 0}


@simulated
async def test_a_message_comes_back_with_everything_that_was_sent(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat()
    await client.send(b"hello", h=7, i="TAGS\x01red\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02mine\x01ü")
    found = await client.pull()
    assert (found.code, found.fields) == (
        0,
        {"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"},
    )
    [message] = messages_of(found)
    assert (message["body"], message["topic"], message["flag"], message["times"]) == (b"hello", "t", 7, 0)
    assert message["properties"] == {"TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "ID", "mine": "ü"}
    assert (message["host"], message["port"], message["born_ms"]) == ("10.0.0.1", 10911, 1000)


@simulated
async def test_messages_of_our_own_producers_are_read_and_what_is_not_a_message_is_a_body(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await client.heartbeat()
    await ours.send(body=b"ours", tag="blue")
    garbage = b"\x93abc"
    await ours.call(RequestCode.SEND_MESSAGE, {"topic": "t", "queue_id": 0, "tag_hash": 0}, garbage)
    first, second = messages_of(await client.pull())
    assert (first["body"], first["properties"]["TAGS"]) == (b"ours", "blue")
    assert (second["body"], second["properties"], second["offset"]) == (garbage, {}, 1)


@simulated
async def test_a_pull_that_finds_nothing_is_held_until_a_message_comes_or_its_time_is_over(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.send()
    await client.heartbeat()
    began, held = world.now, client.begin_pull(1)
    await world.sleep(1)
    await client.send(b"new")
    assert [message["body"] for message in messages_of(await held)] == [b"new"]
    began = world.now
    ended = await client.pull(2)
    assert (ended.code, ended.fields["nextBeginOffset"]) == (19, "2")
    assert 14.9 < world.now - began < 15.1


@simulated
async def test_only_wanted_tags_are_delivered_by_heartbeat_or_by_the_pull_itself(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat(subscription={"subString": "red || blue", "codeSet": ["1"]})
    for tag in ("red", "green", "blue"):
        await client.send(i=f"TAGS\x01{tag}")
    assert [message["properties"]["TAGS"] for message in messages_of(await client.pull())] == ["red", "blue"]
    [message] = messages_of(await client.pull(sysFlag=4, subscription="green"))
    assert message["properties"]["TAGS"] == "green"


@simulated
async def test_a_filter_by_sql_is_that_of_the_heartbeat_or_of_the_pull_itself(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat(subscription={"subString": "price > 10", "expressionType": "SQL92"})
    for price in (5, 11, 20):
        await client.send(b"%d" % price, i=f"price\x01{price}")
    answer = await client.pull()
    assert [message["body"] for message in messages_of(answer)] == [b"11", b"20"]
    assert answer.fields["nextBeginOffset"] == "3"
    own: dict[str, Any] = {"sysFlag": 4, "expressionType": "SQL92"}
    [message] = messages_of(await client.pull(**own, subscription="price < 10"))
    assert message["body"] == b"5"
    none = await client.pull(**own, subscription="price < 1")
    assert (none.code, none.fields["nextBeginOffset"]) == (20, "3")
    wrong = await client.pull(**own, subscription="price <")
    assert wrong.code == 23
    assert "expected" in (wrong.remark or "")
    assert (await client.pull(sysFlag=12, subscription="Class")).code == 1


@simulated
async def test_a_pull_before_the_heartbeat_is_answered_that_there_is_no_subscription(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    assert (await client.pull()).code == 24
    assert (await client.pull(sysFlag=6, subscription="*")).code == 17


@simulated
async def test_a_message_that_is_sent_back_is_redelivered_through_the_retry_topic(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat()
    await client.send(i="UNIQ_KEY\x01ID")
    [message] = messages_of(await client.pull())
    header = {"group": "g", "offset": message["physical"], "delayLevel": 1, "maxReconsumeTimes": 16}
    assert (await client.call(36, header)).code == 0
    [again] = messages_of(await client.pull(topic="%RETRY%g", sysFlag=6, subscription="*"))
    assert (again["topic"], again["times"]) == ("%RETRY%g", 1)
    assert again["properties"] == {"UNIQ_KEY": "ID", "RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "ID"}
    assert (await client.call(36, {**header, "offset": again["physical"], "delayLevel": -1})).code == 0
    [dead] = messages_of(await client.pull(topic="%DLQ%g", sysFlag=4, subscription="*"))
    assert dead["properties"]["UNIQ_KEY"] == "ID"
    assert (await client.call(36, {**header, "offset": 12})).code == 29


@simulated
async def test_offsets_of_a_queue_are_answered(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.send()
    await world.sleep(1)
    between_ms = int(world.simulation.clock_ms())
    await world.sleep(1)
    await client.send()
    for code, more, offset in ((30, {}, "2"), (31, {}, "0"), (29, {"timestamp": between_ms}, "1")):
        assert (await client.call(code, {**QUEUE, **more})).fields == {"offset": offset}


@simulated
async def test_a_group_without_an_offset_is_reported_so_and_then_has_the_one_that_it_commits(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.send()
    assert (await client.call(14, QUEUE)).code == 22
    assert (await client.call(15, {**QUEUE, "commitOffset": 1})).code == 0
    assert (await client.call(14, QUEUE)).fields == {"offset": "1"}
    assert (await client.call(15, {**QUEUE, "commitOffset": 2})).code == 29
