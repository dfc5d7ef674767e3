"""POP of stock consumers, and their questions for the queues that a broker assigns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq.fields import FieldError
from rocketmq.frame import Frame
from rocketmq.popping import parse_token
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.stock_client import StockClient, messages_of

POP, ACK, CHANGE = 200_050, 200_051, 200_053
QUERY_ASSIGNMENT, SET_MODE = 400, 401


async def pop(client: StockClient, poll_ms: int = 0, **more: Any) -> Frame:
    header = {"consumerGroup": "g", "topic": "t", "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000}
    return await client.call(POP, {**header, "pollTime": poll_ms, "bornTime": 0, "initMode": 0, **more})


async def answer_handle(client: StockClient, code: int, handle: str, **more: Any) -> Frame:
    """Send back a handle the way that RocketMQ's client does, which takes queue and offset out of it."""
    *_, queue_id, offset = handle.split(" ")
    header = {"consumerGroup": "g", "topic": "t", "queueId": queue_id, "offset": offset, "extraInfo": handle}
    return await client.call(code, {**header, **more})


def handles_of(frame: Frame) -> list[str]:
    return [message["properties"]["POP_CK"] for message in messages_of(frame)]


async def with_messages(world: World, n: int = 3) -> StockClient:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat(consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    for number in range(n):
        await client.send(b"%d" % number, queue_id=number % 2, i=f"TAGS\x01tag{number}\x02")
    return client


@simulated
async def test_popped_messages_have_handles_and_are_gone_when_these_were_sent_back(world: World) -> None:
    client = await with_messages(world)
    found = await pop(client)
    messages = messages_of(found)
    assert sorted(message["body"] for message in messages) == [b"0", b"1", b"2"]
    assert all(message["topic"] == "t" and message["times"] == 0 for message in messages)
    # Java looks each message up in these two: flag, queue and first offset; flag, queue and all offsets in their order.
    assert sorted(found.fields["startOffsetInfo"].split(";")) == ["0 0 0", "0 1 0"]
    assert sorted(found.fields["msgOffsetInfo"].split(";")) == ["0 0 0,1", "0 1 0"]
    assert {name for name in found.fields if name.endswith(("Time", "Qid", "Num"))} == {
        *("popTime", "invisibleTime", "reviveQid", "restNum")
    }
    for message in messages:
        words = message["properties"]["POP_CK"].split(" ")
        assert words[1:6] == [found.fields["popTime"], "60000", "0", "0", "broker-a"]
        assert words[6:] == [str(message["queue_id"]), str(message["offset"])]
    for handle in handles_of(found):
        assert (await answer_handle(client, ACK, handle)).code == 0
        dead = await answer_handle(client, ACK, handle)
        assert (dead.code, "is dead" in (dead.remark or "")) == (208, True)
    await world.sleep(61)
    assert (await pop(client)).code == 210


@simulated
async def test_a_message_that_is_not_acknowledged_is_redelivered_with_one_more_delivery(world: World) -> None:
    client = await with_messages(world, 1)
    [first] = handles_of(await pop(client))
    again = await pop(client, 30_000, invisibleTime=1_000)
    assert again.code == 210, "the longest wait is over before the message is visible"
    await world.sleep(31)
    [message] = messages_of(await pop(client))
    assert (message["times"], message["body"]) == (1, b"0")
    assert (await answer_handle(client, ACK, first)).code == 208


@simulated
async def test_the_handle_that_a_client_makes_after_a_change_is_good(world: World) -> None:
    client = await with_messages(world, 1)
    [handle] = handles_of(await pop(client))
    changed = await answer_handle(client, CHANGE, handle, invisibleTime=1_000)
    # ChangeInvisibleTimeCallback: offset, pop time, invisible time and revive queue of the answer, then the old words.
    _, _, _, _, *rest, offset = handle.split(" ")
    times = (changed.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
    made = " ".join((offset, *times, *rest, offset))
    assert (await answer_handle(client, CHANGE, handle, invisibleTime=1_000)).code == 208
    assert (await answer_handle(client, ACK, made)).code == 0
    await world.sleep(2)
    assert (await pop(client)).code == 210


@simulated
async def test_a_pop_waits_for_messages_and_takes_only_wanted_tags(world: World) -> None:
    client = await with_messages(world, 0)
    header = {"consumerGroup": "g", "topic": "t", "queueId": 0, "maxMsgNums": 32, "invisibleTime": 60_000}
    await client.send()  # the topic is there
    held = client.begin(POP, {**header, "pollTime": 10_000, "initMode": 1, "exp": "red || blue", "expType": "TAG"})
    await world.sleep(1)
    await client.send(b"no", i="TAGS\x01green")
    await client.send(b"yes", i="TAGS\x01blue")
    assert [message["body"] for message in messages_of(await held)] == [b"yes"]
    await client.send(b"dear", i="price\x0111")
    assert (await pop(client, expType="SQL92", exp="price > 11")).code == 210  # it counts as acknowledged
    await client.send(b"dear too", i="price\x0112")
    [message] = messages_of(await pop(client, expType="SQL92", exp="price > 11"))
    assert message["body"] == b"dear too"
    assert (await pop(client, expType="SQL92", exp="price >")).code == 23


@simulated
async def test_the_codes_of_pop_are_served_as_a_binary_header_cuts_them(world: World) -> None:
    await with_messages(world, 1)
    client = await StockClient.connect(world, "binary", binary=True)
    [handle] = handles_of(await pop(client))
    assert (await answer_handle(client, ACK, handle)).code == 0


def test_what_is_not_a_handle_is_refused() -> None:
    assert parse_token("-1 17 60000 0 0 broker-a 3 101") == 2**64 - 1
    assert parse_token("101 5 60000 1 0 broker-a 3 101") == 5
    for handle in ("", "1 2 3", "x 17 60000 0 0 broker-a 3 101", "1 17 60000 x 0 broker-a 3 101"):
        with pytest.raises(FieldError, match="extraInfo is not a receipt handle"):
            parse_token(handle)


@simulated
async def test_queues_are_assigned_to_pull_or_all_of_them_to_pop(world: World) -> None:
    await world.start_broker(name_servers=(await world.start_name_server(),))
    client = await StockClient.connect(world)
    await client.send()
    question = {"clientId": client.client_id, "consumerGroup": "g", "strategyName": "AVG", "topic": "t"}

    async def assigned() -> Any:
        answer = await client.call(QUERY_ASSIGNMENT, {}, json.dumps(question).encode())
        return json.loads(answer.body or b"{}").get("messageQueueAssignments", answer.code)

    assert await assigned() == 0, "no list: a client that is no member keeps what it has"
    await client.heartbeat()
    await world.sleep(0.1)
    queue = {"brokerName": "broker-a", "topic": "t"}
    assert await assigned() == [{"messageQueue": {**queue, "queueId": n}, "mode": "PULL"} for n in range(4)]
    mode = {"consumerGroup": "g", "topic": "t", "mode": "POP", "popShareQueueNum": 0}
    assert (await client.call(SET_MODE, {}, json.dumps(mode).encode())).code == 0
    assert await assigned() == [{"messageQueue": {**queue, "queueId": -1}, "mode": "POP"}]
    await world.sleep(1)
    assert 40 in [frame.code for frame in client.pushed], "members are told to ask again"
    retry = json.dumps({**mode, "topic": "%RETRY%g"}).encode()
    assert (await client.call(SET_MODE, {}, retry)).code == 604
