"""Routes, brokers and topics as stock clients read them from a name server."""

from __future__ import annotations

import json
from typing import Any

import msgpack

from remoting.request_code import RequestCode
from rocketmq.edge import Caller, Facts, TranslatedRequest
from rocketmq.fields import OURS, Fields
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


def answered(asked: TranslatedRequest, body: object) -> Any:
    return json.loads(asked.answer({}, msgpack.packb(body), 0).body or b"")


def asked(translate: Any, **fields: str) -> TranslatedRequest:
    result = translate(Caller(Facts(), None), Fields(fields), b"", Frame(0, 0, 0, {}))  # type: ignore[arg-type]  # unused
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
    assert OURS in question.answer({}, None, 0).fields, "our own clients tell it from RocketMQ's by that"


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
    caller = Caller(Facts(), None)  # type: ignore[arg-type]  # unused
    assert [
        translate(caller, Fields({}), b"", Frame(0, 0, 0, {})).code for translate in (get_kv_config, delete_kv_config)
    ] == [22, 0]
