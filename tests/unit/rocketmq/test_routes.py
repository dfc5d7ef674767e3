"""Routes, brokers and topics as stock clients and `mqadmin` read them from name servers and brokers."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, ServerFacts, TranslatedRequest
from rocketmq.fields import PROJECT_MARKER, FieldError, Fields, parse_message_type
from rocketmq.frame import Frame
from rocketmq.routes import (
    add_write_perm,
    cluster_info,
    delete_kv_config,
    delete_topic,
    get_kv_config,
    route,
    topics,
    wipe_write_perm,
)
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.stock_client import StockClient
from tests.unit.rocketmq.test_admin import document, queues_of, stored_ms, with_messages


def answered(asked: TranslatedRequest, body: object) -> Any:
    return json.loads(asked.answer({}, msgpack.packb(body), 0).body or b"")


def asked(translate: Any, **fields: str) -> TranslatedRequest:
    no_peer: Any = None
    caller = Caller(ServerFacts(), no_peer)
    result = translate(caller, Fields(fields), b"", Frame(0, 0, 0, {}))
    assert isinstance(result, TranslatedRequest)
    return result


def test_a_route_has_queues_and_addresses_by_broker() -> None:
    question = asked(route, topic="t")
    assert (question.code, question.header) == (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    found = {"topic": "t", "queues": [["b", 4, 2, 6]], "brokers": [["c", "b", [[0, "10.0.0.1:10911"]]]]}
    assert answered(question, found) == {
        "brokerDatas": [{"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "b", "cluster": "c"}],
        "filterServerTable": {},
        "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 2}],
    }


def test_brokers_are_listed_by_name_and_by_cluster() -> None:
    question = asked(cluster_info)
    found = answered(question, [["c", "a", [[0, "x:1"]]], ["c", "b", [[0, "y:1"]]]])
    assert found["clusterAddrTable"] == {"c": ["a", "b"]}
    assert found["brokerAddrTable"]["b"] == {"brokerAddrs": {"0": "y:1"}, "brokerName": "b", "cluster": "c"}
    assert PROJECT_MARKER in question.answer({}, None, 0).fields, "our own clients tell it from RocketMQ's by that"


def test_topics_are_listed() -> None:
    assert answered(asked(topics), ["a", "b"]) == {"topicList": ["a", "b"]}


def test_operators_delete_topics_and_let_producers_leave_a_broker() -> None:
    assert asked(delete_topic, topic="t")[:2] == (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "t"})
    for translate, code, count in (
        (wipe_write_perm, RequestCode.WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount"),
        (add_write_perm, RequestCode.ADD_WRITE_PERM_OF_BROKER, "addTopicCount"),
    ):
        question = asked(translate, brokerName="b")
        assert question[:2] == (code, {"broker_name": "b"})
        assert question.answer({"n": 3}, None, 0).fields == {count: 3}


def test_a_name_server_has_no_settings_of_others() -> None:
    no_peer: Any = None
    caller = Caller(ServerFacts(), no_peer)
    assert [
        translate(caller, Fields({}), b"", Frame(0, 0, 0, {})).code for translate in (get_kv_config, delete_kv_config)
    ] == [22, 0]


# --- to brokers -------------------------------------------------------------------------------------------------------
@simulated
async def test_a_topic_is_created_shown_and_deleted(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    header = {"topic": "new", "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    assert (await client.call(17, header)).code == 0
    assert document(await client.call(351, {"topic": "new"})) == {
        **{"topicName": "new", "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "order": False, "attributes": {}},
        **{"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0},
    }
    assert (await client.call(17, {**header, "topic": "no good"})).code == 29
    assert (await client.call(215, {"topic": "new"})).code == 0
    for code in (351, 202):
        assert (await client.call(code, {"topic": "new"})).code == 17
    assert (await client.call(215, {"topic": "%RETRY%gone"})).code == 0, "the tool deletes what went with its group"


@simulated
async def test_the_ends_of_the_queues_of_a_topic(world: World) -> None:
    client, _ = await with_messages(world)
    table = queues_of(document(await client.call(202, {"topic": "t"}))["offsetTable"])
    assert {queue[2]: (row["minOffset"], row["maxOffset"]) for queue, row in table.items()} == {0: (0, 3), 1: (0, 0)}
    assert {queue[:2] for queue in table} == {("t", "broker-a")}
    assert [table["t", "broker-a", n]["lastUpdateTimestamp"] for n in range(2)] == [await stored_ms(client, "k2"), 0]


@simulated
async def test_the_message_type_of_a_topic_is_set_shown_and_removed_as_an_attribute(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    header = {"topic": "new", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}

    async def attributes(change: str) -> object:
        assert (await client.call(17, {**header, "attributes": change})).code == 0
        return document(await client.call(351, {"topic": "new"}))["attributes"]

    assert await attributes("") == {}
    assert await attributes("+message.type=FIFO") == {"message.type": "FIFO"}
    assert await attributes("") == {"message.type": "FIFO"}
    assert await attributes("-message.type") == {}
    refused = await client.call(17, {**header, "attributes": "+queue.type=BatchCQ"})
    assert refused.code != 0
    assert "only message.type" in (refused.remark or "")


@pytest.mark.parametrize(
    ("attributes", "message_type"),
    [
        ("", None),
        (" , ", None),
        ("+message.type=NORMAL", MessageType.NORMAL),
        (" +message.type = TRANSACTION ", MessageType.TRANSACTION),
        ("+message.type=MIXED", MessageType.MIXED),
        ("-message.type", MessageType.MIXED),
    ],
)
def test_attributes_name_at_most_the_message_type(attributes: str, message_type: MessageType | None) -> None:
    assert parse_message_type(attributes) is message_type


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ("+cleanup.policy=COMPACTION", "of a topic is not kept here, only message.type"),
        ("message.type=FIFO", "not kept here"),
        ("+message.type=SLOW", "must be .* types are MIXED, NORMAL, FIFO, DELAY, TRANSACTION"),
        ("+message.type", "must be"),
        ("*message.type=FIFO", "must be"),
    ],
)
def test_other_attributes_are_refused(attributes: str, why: str) -> None:
    with pytest.raises(FieldError, match=why):
        parse_message_type(attributes)
