"""The requests of our client, call by call, against what servers of RocketMQ answer."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from remoting.request_code import RequestCode
from rocketmq.frame import Frame
from rocketmq.message import Host
from tests.unit.rocketmq.outward.test_edge import Server

QUEUE = {"topic": "t", "queue_id": 0}
STORE = Host(b"\x0a\x00\x00\x01", 10911)


def asked(code: int, header: dict[str, Any], body: object = None) -> tuple[Server, Frame]:
    server = Server()
    [call] = server.ask(code, header, body)
    return server, call


def joined(consume_from: str = "LAST_OFFSET", timestamp_ms: int = 0) -> Server:
    """A server that has a member's heartbeat."""
    server = Server()
    row = ["g", "PASSIVELY", "CLUSTERING", consume_from, "AVG", 30.0, timestamp_ms, 0, [["t", "a || b", 1]]]
    beat = {"client_id": "c@1", "producers": ["p"], "epoch": "", "consumers": [row]}
    [call] = server.ask(RequestCode.HEART_BEAT, {}, beat)
    said = json.loads(call.body or b"")
    assert (said["clientID"], said["producerDataSet"]) == ("c@1", [{"groupName": "p"}])
    [consumer] = said["consumerDataSet"]
    assert consumer["subscriptionDataSet"][0]["codeSet"] == [97, 98]
    server.say(call)
    return server


@pytest.mark.parametrize("key", ["0", '"0"'])
def test_a_route_is_read_in_standard_json_and_as_old_servers_write_it(key: str) -> None:
    server, call = asked(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    assert (call.code, call.fields["topic"]) == (105, "t")
    queues = '[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":2,"topicSysFlag":0}]'
    brokers = f'[{{"brokerAddrs":{{{key}:"10.0.0.1:10911"}},"brokerName":"a","cluster":"c"}}]'
    [command] = server.say(call, body=f'{{"brokerDatas":{brokers},"queueDatas":{queues}}}'.encode())
    assert msgpack.unpackb(command.body or b"") == {
        "topic": "t",
        "queues": [["a", 4, 2, 6]],
        "brokers": [["c", "a", [[0, "10.0.0.1:10911"]]]],
    }


@pytest.mark.parametrize(("code", "kind"), [(0, "namesrv"), (3, "broker")])
def test_a_name_server_is_told_from_a_broker_by_what_it_knows(code: int, kind: str) -> None:
    server, call = asked(RequestCode.GET_SERVER_STATE, {})
    assert server.say(call, code)[0].header["kind"] == kind


@pytest.mark.parametrize(
    ("start", "topic", "code"),
    [("LAST_OFFSET", "t", 30), ("FIRST_OFFSET", "t", 31), ("TIMESTAMP", "t", 29), ("LAST_OFFSET", "%RETRY%g", 31)],
)
def test_a_group_without_a_commit_begins_where_its_member_says(start: str, topic: str, code: int) -> None:
    server = joined(start, 17)
    [call] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [[topic, 2]])
    assert server.say(call, 22) == []
    [question] = server.asked
    assert question.code == code
    assert question.fields.get("timestamp", "17") == "17"


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


def test_commits_are_calls_of_their_own_and_refusals_are_named() -> None:
    server = joined()
    rows = [["t", 0, 5, 1], ["t", 1, 6, 1], ["t", 2, -1, 1]]
    first, second = server.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g"}, rows)
    assert (first.fields["commitOffset"], second.fields["queueId"]) == ("5", "1")
    assert server.say(first) == []
    [command] = server.say(second, 17)
    assert msgpack.unpackb(command.body or b"") == [["t", 1, 17, ""]]
