"""Administration by our client at brokers of RocketMQ."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from model.response_code import ResponseCode
from remoting.command import Command
from remoting.request_code import RequestCode
from rocketmq.message import Host, StoredMessage, encode_message
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined

GROUPS = json.dumps({"subscriptionGroupTable": {"b": {"retryMaxTimes": 3}, "a": {"consumeEnable": False}}}).encode()


def body_of(command: Command) -> Any:
    return msgpack.unpackb(command.body or b"")


def test_groups_are_those_with_settings_and_their_members_are_counted() -> None:
    server = joined()
    [call] = server.ask(RequestCode.GET_GROUP_LIST, {})
    assert call.code == 201
    assert server.say(call, body=GROUPS) == []
    first, second = server.asked
    assert (first.fields, second.fields) == ({"consumerGroup": "a"}, {"consumerGroup": "b"})
    server.say(second, body=b'{"consumerIdList":["c1","c2"]}')
    [command] = server.say(first, 1)
    assert body_of(command) == [["a", 0, 0], ["b", 2, 0]]


@pytest.mark.parametrize(
    ("group", "is_set", "expected"),
    [("a", True, [False, True, 1, 16]), ("b", True, [True, True, 1, 3]), ("c", False, [True, True, 1, -1])],
)
def test_settings_of_a_group_are_read_from_all(group: str, is_set: bool, expected: list[object]) -> None:
    server = joined()
    [call] = server.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
    [command] = server.say(call, body=GROUPS)
    assert (command.header["is_set"], body_of(command)) == (is_set, expected)


def test_members_are_listed_with_what_the_group_subscribes_to() -> None:
    server = joined()
    [call] = server.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"group": "g"})
    said = {
        "connectionSet": [{"clientId": "c1", "clientAddr": "h:1", "language": "JAVA", "version": 1}],
        "consumeType": "CONSUME_ACTIVELY",
        "messageModel": "BROADCASTING",
        "subscriptionTable": {"t": {"subString": "a", "topic": "t"}},
    }
    [member] = body_of(server.say(call, body=json.dumps(said).encode())[0])["members"]
    assert (member["client_id"], member["consumer"][1:3], member["consumer"][-1]) == (
        "c1",
        ["ACTIVELY", "BROADCASTING"],
        [["t", "a", 0]],
    )
    [call] = server.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"group": "g"})
    assert server.say(call, 206)[0].code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def ranged(server: Server, low: int, high: int, committed: int | None) -> list[Command]:
    """Answer the three questions about one queue."""
    first, end, before = server.asked
    assert [each.code for each in (first, end, before)] == [31, 30, 14]
    server.say(first, offset=low)
    server.say(end, offset=high)
    return server.say(before, 22) if committed is None else server.say(before, offset=committed)


@pytest.mark.parametrize(("committed", "expected"), [(3, 3), (None, -1)])
def test_progress_is_that_of_each_queue_a_group_reads(committed: int | None, expected: int) -> None:
    server = joined()
    [call] = server.ask(RequestCode.GET_CONSUME_STATS, {"group": "g"})
    table = b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":2,"topic":"t"}:{"brokerOffset":9}}}'
    assert server.say(call, body=table) == []
    [command] = ranged(server, 1, 9, committed)
    assert body_of(command) == [["t", 2, 1, 9, expected, "", 0]]


def known_topic(server: Server) -> None:
    server.edge._server.cluster.has_topic("t", {"broker-a": 1})


@pytest.mark.parametrize(
    ("to", "value", "after", "is_clamped"),
    [("earliest", 0, 5, False), ("latest", 0, 50, False), ("offset", 7, 7, False), ("shift", -100, 5, True)],
)
def test_a_group_without_members_is_reset_by_commits(to: str, value: int, after: int, is_clamped: bool) -> None:
    server = joined()
    known_topic(server)
    header = {"group": "g", "topic": "t", "to": to, "value": value}
    [online] = server.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    server.say(online, 1)
    assert ranged(server, 5, 50, 20) == []
    [commit] = server.asked
    assert (commit.code, commit.fields["commitOffset"]) == (15, str(after))
    [command] = server.say(commit)
    assert (command.header["known"], body_of(command)) == (True, [[0, 20, after, is_clamped, ""]])


def test_a_reset_to_a_time_asks_where_that_is_and_a_dry_run_changes_nothing() -> None:
    server = joined()
    known_topic(server)
    header = {"group": "g", "topic": "t", "to": "time", "value": 1234, "dry_run": True}
    [online] = server.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    server.say(online, body=b'{"consumerIdList":["c"]}')
    ranged(server, 5, 50, 20)
    [search] = server.asked
    assert (search.code, search.fields["timestamp"]) == (29, "1234")
    [command] = server.say(search, offset=30)
    assert body_of(command) == [[0, 20, 30, False, ""]]


def test_a_group_with_members_is_not_reset() -> None:
    server = joined()
    known_topic(server)
    header = {"group": "g", "topic": "t", "to": "earliest"}
    [online] = server.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    [command] = server.say(online, body=b'{"consumerIdList":["c"]}')
    assert command.code == ResponseCode.ILLEGAL_OPERATION
    assert "stop them first" in command.header["remark"]


def test_messages_are_found_by_a_key_and_those_whose_hash_only_is_the_same_are_not() -> None:
    def stored(offset: int, keys: str) -> bytes:
        host = Host(b"\x0a\x00\x00\x01", 10911)
        return encode_message(StoredMessage("t", 0, offset, offset, b"x", {"KEYS": keys}, 1, offset, host))

    server = joined()
    [call] = server.ask(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k1", "max_n": 2})
    assert (call.code, call.fields["_UNIQUE_KEY_QUERY"]) == (12, "false")
    body = stored(1, "k1") + stored(2, "other") + stored(3, "k2 k1") + stored(4, "k1")
    [command] = server.say(call, body=body)
    assert command.header == {"next_before": -1}
    assert [len(row) for row in body_of(command)] == [4, 4]
    [call] = server.ask(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k1", "max_n": 2})
    assert body_of(server.say(call, 22)[0]) == []


def test_a_topic_is_deleted_at_brokers_and_name_servers() -> None:
    for code, theirs in ((RequestCode.DELETE_TOPIC_IN_BROKER, 215), (RequestCode.DELETE_TOPIC_IN_NAMESRV, 216)):
        server = joined()
        [call] = server.ask(code, {"topic": "t"})
        assert (call.code, call.fields["topic"]) == (theirs, "t")
        assert server.say(call)[0].code == 0
