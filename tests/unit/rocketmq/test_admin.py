"""What `mqadmin` asks a broker, frame by frame."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model.limits import MAX_RETRY_DELAYS
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.fields import FieldError, Fields, parse_retry_delays
from rocketmq.frame import ONE_WAY_BIT, Frame
from rocketmq.message import physical_offset
from tests.unit.broker.harness import ADDRESS, Peer, World, consumer, simulated, unpacked
from tests.unit.rocketmq.stock_client import StockClient, messages_of


def document(frame: Frame) -> Any:
    assert frame.code == 0, frame.remark
    return json.loads(frame.body or b"{}")


def queues_of(table: dict[str, Any]) -> dict[tuple[str, str, int], Any]:
    """A table by queue, with its keys read as Java does."""
    read = ((json.loads(key), value) for key, value in table.items())
    return {(queue["topic"], queue["brokerName"], queue["queueId"]): value for queue, value in read}


async def with_messages(world: World, n: int = 3) -> tuple[StockClient, Peer]:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await ours.put_topic("t", read=2)
    for number in range(n):
        await client.send(b"%d" % number, i=f"KEYS\x01k{number} all\x02UNIQ_KEY\x01ID{number}\x02")
    return client, ours


async def stored_ms(client: StockClient, key: str) -> int:
    """When the message with a key was stored."""
    header = {"topic": "t", "key": key, "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 2**62}
    [found] = messages_of(await client.call(12, header))
    return int(found["stored_ms"])


@simulated
async def test_a_broker_reports_of_itself_in_texts(world: World) -> None:
    client, _ = await with_messages(world)
    table = document(await client.call(28, {}))["table"]
    assert {type(value) for value in table.values()} == {str}
    assert (table["brokerActive"], table["sendThreadPoolQueueSize"], table["name"]) == ("true", "0", "broker-a")


@simulated
async def test_the_settings_of_a_group_are_set_and_a_group_without_members_is_deleted(world: World) -> None:
    client, ours = await with_messages(world)
    settings = {"groupName": "g", "consumeEnable": True, "consumeBroadcastEnable": False, "retryMaxTimes": 5}
    assert (await client.call(200, {}, json.dumps({**settings, "retryQueueNums": 2}).encode())).code == 0
    found = await ours.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert (unpacked(found), found.header["fifo"]) == ([True, False, 2, 5], False)
    in_order = {**settings, "consumeMessageOrderly": True, "groupRetryPolicy": {"customizedRetryPolicy": {"next": [7]}}}
    assert (await client.call(200, {}, json.dumps(in_order).encode())).code == 0
    found = await ours.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert (found.header["fifo"], found.header["retry_delays_ms"]) == (True, [7])
    await client.heartbeat()
    refused = await client.call(207, {"groupName": "g"})
    assert (refused.code, "has members" in (refused.remark or "")) == (604, True)
    client.close()
    await world.sleep(1)
    again = await StockClient.connect(world, "other")
    assert (await again.call(207, {"groupName": "g"})).code == 0


@simulated
async def test_members_of_both_kinds_and_how_far_they_are(world: World) -> None:
    client, ours = await with_messages(world)
    assert (await client.call(203, {"consumerGroup": "g"})).code == ResponseCode.CONSUMER_NOT_ONLINE
    await client.heartbeat(subscription={"subString": "a || b"})
    await ours.heartbeat(consumer())
    reported = document(await client.call(203, {"consumerGroup": "g"}))
    assert [(each["clientId"], each["language"]) for each in reported["connectionSet"]] == [
        ("a@1", "PYTHON"),
        ("stock@1", "OTHER"),
    ]
    assert (reported["messageModel"], reported["consumeType"]) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert reported["subscriptionTable"]["t"]["topic"] == "t"
    await ours.commit(2)
    table = queues_of(document(await client.call(208, {"consumerGroup": "g", "topic": "t"}))["offsetTable"])
    assert (table["t", "broker-a", 0]["brokerOffset"], table["t", "broker-a", 0]["consumerOffset"]) == (3, 2)
    assert [table["t", "broker-a", n]["lastTimestamp"] for n in range(2)] == [await stored_ms(client, "k1"), 0]
    whole = document(await client.call(317, {"isOrder": "false"}))
    [of_group] = whole["consumeStatsList"]
    assert [queues_of(each["offsetTable"]) for each in of_group["g"]] == [table]
    assert (whole["totalDiff"], whole["brokerAddr"]) == (1, ADDRESS)
    assert document(await client.call(317, {"isOrder": "true"}))["consumeStatsList"] == []
    assert document(await client.call(300, {"topic": "t"})) == {"groupList": ["g"]}
    assert document(await client.call(300, {"topic": "other"})) == {"groupList": []}
    producers = document(await client.call(204, {"producerGroup": "p"}))["connectionSet"]
    assert [each["clientId"] for each in producers] == ["stock@1"]
    assert (await client.call(204, {"producerGroup": "nobody"})).code == 1


@simulated
async def test_offsets_are_reset_to_a_time_to_the_end_or_to_an_offset(world: World) -> None:
    client, ours = await with_messages(world)
    await ours.commit(2)
    header = {"topic": "t", "group": "g", "timestamp": -1, "isForce": "true"}
    refused = await client.call(222, {**header, "isForce": "false"})
    assert (refused.code, "use force" in (refused.remark or "")) == (29, True)
    for more, offset in (({}, 3), ({"timestamp": 0, "queueId": 0}, 0), ({"offset": 1, "queueId": 0}, 1)):
        done = queues_of(document(await client.call(222, {**header, **more}))["offsetTable"])
        assert done["t", "broker-a", 0] == await ours.committed(0) == offset
        assert len(done) == (1 if "queueId" in more else 2)


@simulated
async def test_a_stock_member_is_notified_of_a_reset_in_the_form_that_its_language_reads(world: World) -> None:
    client, _ = await with_messages(world)
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
    header = {"topic": "t", "group": "g", "timestamp": 0, "isForce": "true", "offset": 2, "queueId": 0}
    text = json.dumps(queue, separators=(",", ":"))
    tables = {"JAVA": {text: 2}, "CPP": [{**queue, "offset": 2}], "GO": [[queue, 2]]}
    for language, table in tables.items():
        client.language = language
        await client.heartbeat()
        client.pushed.clear()
        await client.call(222, header)
        [reported] = [frame for frame in client.pushed if frame.code == 220]
        assert (reported.flag, reported.fields["topic"], reported.fields["group"]) == (ONE_WAY_BIT, "t", "g")
        assert json.loads(reported.body or b"") == {"offsetTable": table}


@simulated
async def test_a_message_is_found_by_its_place_its_key_and_the_id_that_its_client_gave_it(world: World) -> None:
    client, _ = await with_messages(world)
    sent = await client.send(b"last", i="KEYS\x01last\x02UNIQ_KEY\x01LAST\x02")
    physical = int(sent.fields["msgId"][16:], 16)
    [found] = messages_of(await client.call(33, {"offset": physical}))
    assert (found["body"], found["physical"]) == (b"last", physical)
    for wrong in (physical + 1, physical_offset(999, 0, 0)):
        refused = await client.call(33, {"offset": wrong})
        assert refused.code != 0
        assert "no message has the offset" in (refused.remark or "")
    await world.sleep(1)
    header = {"topic": "t", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 2**62}
    answer = await client.call(12, {**header, "key": "all", "_UNIQUE_KEY_QUERY": "false"})
    assert {each["body"] for each in messages_of(answer)} == {b"0", b"1", b"2"}
    assert answer.fields.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    by_id = await client.call(12, {**header, "key": "ID1", "_UNIQUE_KEY_QUERY": "true"})
    assert [each["body"] for each in messages_of(by_id)] == [b"1"]
    for more in ({"key": "none"}, {"key": "all", "topic": "other"}):
        assert (await client.call(12, {**header, **more})).code == 22


@simulated
async def test_rates_are_not_kept_and_the_tool_is_reported_so(world: World) -> None:
    client, _ = await with_messages(world)
    refused = await client.call(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"})
    assert (refused.code, refused.remark) == (1, "The stats <TOPIC_PUT_NUMS> not exist")


# --- retry policies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        ({}, []),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": None, "exponentialRetryPolicy": None}, []),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}, [1_000, 5_000]),
        ({"customizedRetryPolicy": {"next": ["7"]}}, [7]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 5000}}, [1000, 2000, 4000, 5000]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 9, "max": 9, "multiplier": 3}}, [9]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 0}}, [0]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5, "multiplier": 1}}, [5] * MAX_RETRY_DELAYS),
    ],
)
def test_a_policy_is_a_list_of_delays(policy: dict[str, Any], delays: list[int]) -> None:
    assert parse_retry_delays(Fields(policy)) == delays


def test_an_exponential_policy_has_the_defaults_of_rocketmq() -> None:
    delays = parse_retry_delays(Fields({"type": "EXPONENTIAL"}))
    assert (delays[:3], delays[-1]) == ([5_000, 10_000, 20_000], 7_200_000)


@pytest.mark.parametrize(
    "policy",
    [
        {"customizedRetryPolicy": [1]},
        {"customizedRetryPolicy": {"next": 5}},
        {"customizedRetryPolicy": {"next": ["x"]}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": "soon"}},
    ],
)
def test_another_thing_is_refused_by_the_name_of_its_field(policy: dict[str, Any]) -> None:
    with pytest.raises(FieldError, match=r"the field (next|initial|customizedRetryPolicy) must be"):
        parse_retry_delays(Fields(policy))
