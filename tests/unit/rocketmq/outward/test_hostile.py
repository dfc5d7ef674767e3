"""A server that answers anything: our client raises by name, and a connection is closed only for what is no frame."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remoting.command import RESPONSE
from remoting.request_code import RequestCode
from rocketmq.frame import RESPONSE_BIT, Frame, encode_frame
from rocketmq.message import Host, StoredMessage, encode_message
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined, locks
from tests.unit.rocketmq.outward.test_pops import POP

QUEUE = {"topic": "t", "queue_id": 0}
HALF = msgpack.packb(["t", b"x", "", [], {}, 5, "id"])
PULL = {"group": "g", **QUEUE, "offset": 0, "max_n": 8, "suspend_ms": 0}
QUESTIONS: list[tuple[RequestCode, dict[str, Any], object]] = [
    (RequestCode.GET_SERVER_STATE, {}, None),
    (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}, None),
    (RequestCode.GET_BROKER_CLUSTER_INFO, {}, None),
    (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, None),
    (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": "g", "known_version": -1}, None),
    (RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0], ["t", 1]]),
    (RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g"}, [["t", 0, 5, 1]]),
    (RequestCode.GET_MAX_OFFSET, QUEUE, None),
    (RequestCode.PULL_MESSAGE, PULL, None),
    (RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "g", **QUEUE, "offset": 0, "max_attempts": 3}, None),
    (RequestCode.POP_MESSAGE, POP, None),
    (RequestCode.GET_GROUP_LIST, {}, None),
    (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"group": "g"}, None),
    (RequestCode.GET_CONSUME_STATS, {"group": "g"}, None),
    (RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k", "max_n": 4}, None),
    (RequestCode.VIEW_MESSAGE_BY_ID, {"message_id": "id", "max_n": 4}, None),
    (RequestCode.GET_BROKER_RUNTIME_INFO, {}, None),
    (RequestCode.SEND_HALF_MESSAGE, {"group": "p"}, [["t", 0, 0, -1, HALF]]),
    (RequestCode.END_TRANSACTION, {"group": "p"}, [[1, "id", 8]]),
]
MESSAGE = encode_message(StoredMessage("t", 0, 0, 0, b"x", {"KEYS": "k"}, 1, 2, Host(bytes(4), 1)))
NAMES = (
    "offset",
    "nextBeginOffset",
    "minOffset",
    "maxOffset",
    "popTime",
    "invisibleTime",
    "reviveQid",
    "startOffsetInfo",
    "queueOffset",
    "msgId",
)
KEYS = ("queueDatas", "brokerDatas", "brokerAddrs", "brokerName", "brokerAddrTable", "topicList", "consumerIdList")
MORE = ("lockOKMQSet", "topic", "queueId", "readQueueNums", "perm", "offsetTable", "connectionSet", "clientId")
LAST = (
    "topicConfigTable",
    "mqTable",
    "table",
    "runtime",
    "minOffset",
    "writeQueueNums",
    "subscriptionGroupTable",
    "subscriptionTable",
    "messageModel",
    "consumeType",
    "retryMaxTimes",
)
LEAVES = st.none() | st.booleans() | st.integers() | st.just(10**30) | st.text(max_size=4)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS + MORE + LAST), inner, max_size=4),
    max_leaves=12,
)
BODIES = (
    st.none()
    | st.binary(max_size=120)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.sampled_from([MESSAGE, MESSAGE[:-3], MESSAGE * 2, locks(0, 7), b"[" * 5000])
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), st.text(max_size=6) | st.integers(-5, 2**64).map(str), max_size=8)


@settings(max_examples=120)
@given(
    st.sampled_from(QUESTIONS),
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 1, 17, 19, 21, 22, 210, 9999]), FIELDS, BODIES), min_size=1, max_size=4
    ),
)
def test_whatever_is_answered_each_request_has_one_answer_and_no_connection_breaks(
    question: tuple[RequestCode, dict[str, Any], object],
    ordered: bool,
    answers: list[tuple[int, dict[str, str], bytes | None]],
) -> None:
    server = joined(ordered=ordered)
    code, header, body = question
    server.ask(code, header, body)
    received = []
    for place in range(60):
        if not server.asked:
            break
        answer, fields, said = answers[place % len(answers)]
        received += server.say(server.asked[0], answer, said, **fields)
    assert server.edge.error is None
    assert [(command.flags, command.opaque) for command in received] == [(RESPONSE, 7)]


@pytest.mark.parametrize("n", [-1, 2**31, 10**30, "many"])
def test_a_route_with_an_absurd_number_of_queues_is_refused_before_anyone_counts_them(n: object) -> None:
    queues = [{"brokerName": "a", "readQueueNums": n, "writeQueueNums": 4, "perm": 6}]
    server = Server()
    [call] = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    [command] = server.say(call, body=json.dumps({"queueDatas": queues, "brokerDatas": []}).encode())
    assert command.code == 1
    assert "queues" in command.header["remark"] or "number" in command.header["remark"]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"queueDatas":[],"brokerDatas":[{"cluster":%d,"brokerName":"a","brokerAddrs":{"0":"h:1"}}]}' % 10**30,
    ],
    ids=["deep", "large"],
)
def test_what_is_too_deep_or_too_large_for_our_own_frames_is_an_error_too(body: bytes) -> None:
    server = Server()
    [call] = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    [command] = server.say(call, body=body)
    assert (command.code, "cannot be read" in command.header["remark"]) == (1, True)


@given(st.binary(max_size=80), st.integers(0, 2**31 - 1))
def test_garbage_and_answers_that_no_one_asked_for_are_survived(garbage: bytes, opaque: int) -> None:
    server = joined()
    [call] = server.ask(RequestCode.GET_MAX_OFFSET, QUEUE)
    if opaque != call.opaque:
        assert server.edge.feed(encode_frame(Frame(0, RESPONSE_BIT, opaque, {"offset": "1"}))) == []
    server.edge.feed(garbage)
    server.edge.feed(garbage)
