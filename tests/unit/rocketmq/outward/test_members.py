"""The membership of our client in a group of a broker of RocketMQ."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from remoting.request_code import RequestCode
from rocketmq.frame import Frame, encode_frame
from tests.unit.rocketmq.outward.test_edge import Server


def joined(consume_from: str = "LAST_OFFSET", timestamp_ms: int = 0, *, ordered: bool = False) -> Server:
    """A server that has a member's heartbeat."""
    server = Server()
    [call] = beat(server, consume_from, timestamp_ms, ordered=ordered)
    said = json.loads(call.body or b"")
    assert (said["clientID"], said["producerDataSet"]) == ("c@1", [{"groupName": "p"}])
    [consumer] = said["consumerDataSet"]
    assert consumer["subscriptionDataSet"][0]["codeSet"] == [97, 98]
    server.say(call)
    return server


def beat(
    server: Server, consume_from: str = "LAST_OFFSET", timestamp_ms: int = 0, *, ordered: bool = False
) -> list[Frame]:
    """The calls of a heartbeat."""
    row = ["g", "PASSIVELY", "CLUSTERING", consume_from, "AVG", 30.0, timestamp_ms, 0, [["t", "a || b", 1]]]
    said = {"client_id": "c@1", "producers": ["p"], "epoch": "", "consumers": [row]}
    return list(server.ask(RequestCode.HEART_BEAT, {}, {**said, "added": {"g": {"ordered": ordered}}}))


def locks(*queue_ids: int) -> bytes:
    """What a broker answers of locks that are granted."""
    queues = [{"topic": "t", "brokerName": "broker-a", "queueId": queue_id} for queue_id in queue_ids]
    return json.dumps({"lockOKMQSet": queues}).encode()


def test_equal_member_lists_have_equal_versions_and_others_do_not() -> None:
    def listed(*ids: str) -> list[Any]:
        server = joined()
        [call] = server.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": "g", "known_version": -1})
        [command] = server.say(call, body=json.dumps({"consumerIdList": ids}).encode())
        view: Any = msgpack.unpackb(command.body or b"")
        assert command.header == {"version": view[0]}
        return list(view)

    one, same, other = listed("b", "a"), listed("a", "b"), listed("a", "c")
    assert one == same
    assert one[1] == [[["t"], ["a", "b"]]]
    assert one[0] != other[0]


def test_a_heartbeat_renews_the_locks_and_one_that_is_gone_ends_the_session() -> None:
    server = joined(ordered=True)
    [lock] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0], ["t", 1]])
    server.say(lock, body=locks(0, 1))
    for offset in list(server.asked):
        server.say(offset, offset=5)
    heartbeat, renewal = beat(server, ordered=True)
    assert (heartbeat.code, renewal.code) == (34, 41)
    assert {queue["queueId"] for queue in json.loads(renewal.body or b"")["mqSet"]} == {0, 1}
    server.say(heartbeat)
    [command] = server.say(renewal, body=locks(0, 1))
    assert command.header == {"groups": {"g": [0, 0, False]}}
    heartbeat, renewal = beat(server, ordered=True)
    server.say(heartbeat)
    [command] = server.say(renewal, body=locks(1))
    assert command.header == {"groups": {"g": [0, 0, True]}}
    _, renewal = beat(server, ordered=True)
    assert [queue["queueId"] for queue in json.loads(renewal.body or b"")["mqSet"]] == [1]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_tool_is_reported_which_queues_the_client_has_at_this_broker(ordered: bool) -> None:
    def reported(server: Server) -> dict[str, Any]:
        server.asked.clear()
        server.edge.feed(encode_frame(Frame(307, 0, 5, {"consumerGroup": "g", "clientId": "c@1"})))
        [answer] = server.asked
        assert (answer.code, answer.opaque) == (0, 5)
        said: dict[str, Any] = json.loads(answer.body or b"")
        return said

    server = joined(ordered=ordered)
    assert reported(server)["mqTable"] == {}
    calls = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0], ["t", 1]])
    if ordered:
        server.say(calls[0], body=locks(1))
        server.say(server.asked[0], offset=3)
    else:
        for call in list(calls):
            server.say(call, offset=3)
    said = reported(server)
    queues = {json.loads(name)["queueId"]: each["locked"] for name, each in said["mqTable"].items()}
    assert queues == ({1: True} if ordered else {0: False, 1: False})
    assert [each["topic"] for each in said["subscriptionSet"]] == ["t"]
    for call in list(server.ask(RequestCode.UNLOCK_BATCH_MQ, {"group": "g"}, [["t", 1, -1, 0], ["t", 0, -1, 0]])):
        server.say(call)
    assert reported(server)["mqTable"] == {}


def by_sql(server: Server, text: str) -> list[Frame]:
    row = ["g", "PASSIVELY", "CLUSTERING", "LAST_OFFSET", "AVG", 30.0, 0, 0, [["t", text, 1]]]
    said = {"client_id": "c@1", "producers": ["p"], "epoch": "", "consumers": [row], "added": {"g": {"sql": ["t"]}}}
    return list(server.ask(RequestCode.HEART_BEAT, {}, said))


def test_a_server_is_asked_about_each_new_filter_before_the_heartbeat_that_has_it() -> None:
    server = joined()
    [check] = by_sql(server, "price > 10")
    assert check.code == 46
    wanted = {"expressionType": "SQL92", "subString": "price > 10", "tagsSet": [], "topic": "t"}
    assert json.loads(check.body or b"")["subscriptionData"].items() >= wanted.items()
    server.say(check)
    [heartbeat] = [frame for frame in server.asked if frame.code == 34]
    [consumer] = json.loads(heartbeat.body or b"")["consumerDataSet"]
    assert consumer["subscriptionDataSet"][0].items() >= wanted.items()
    server.say(heartbeat)
    [again] = by_sql(server, "price > 10")
    assert again.code == 34


def test_who_subscribes_gets_the_refusal_of_a_filter() -> None:
    server = joined()
    [check] = by_sql(server, "price > 10")
    [command] = server.say(check, 1)
    assert command.code == 1
    assert command.header["remark"] == "code 1"
    [again] = by_sql(server, "price > 10")
    assert again.code == 46
