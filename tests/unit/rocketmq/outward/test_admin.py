"""Administration by our client at brokers of RocketMQ."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from client.admin.records import BrokerInfo
from model.response_code import ResponseCode
from remoting.command import Command
from remoting.request_code import RequestCode
from rocketmq.message import Host, StoredMessage, encode_message
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined

GROUPS = json.dumps({"subscriptionGroupTable": {"b": {"retryMaxTimes": 3}, "a": {"consumeEnable": False}}}).encode()


STATS = b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":2,"topic":"t"}:{"brokerOffset":9}}}'


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
    assert server.say(call, body=STATS) == []
    assert ranged(server, 1, 9, committed) == []
    [online] = server.asked
    [command] = server.say(online, 206)
    assert body_of(command) == [["t", 2, 1, 9, expected, "", 0]]


@pytest.mark.parametrize(
    ("code", "reported", "owner"),
    [
        (0, b'{"mqTable":{{"brokerName":"b","queueId":2,"topic":"t"}:{"locked":true}}}', "c2"),
        (0, b'{"mqTable":{{"brokerName":"b","queueId":1,"topic":"t"}:{"locked":true}}}', ""),
        (1, None, ""),
    ],
)
def test_members_are_asked_for_their_queues_because_brokers_do_not_know_the_owners(
    code: int, reported: bytes | None, owner: str
) -> None:
    server = joined()
    [call] = server.ask(RequestCode.GET_CONSUME_STATS, {"group": "g"})
    server.say(call, body=STATS)
    ranged(server, 1, 9, 3)
    [online] = server.asked
    assert server.say(online, body=b'{"consumerIdList":["c1","c2"]}') == []
    first, second = server.asked
    assert (first.code, first.fields["clientId"], second.fields["clientId"]) == (307, "c1", "c2")
    assert server.say(first, 1) == []
    [command] = server.say(second, code, reported)
    assert body_of(command)[0][5] == owner


def test_a_broker_is_described_by_its_topics_with_the_ranges_of_their_queues() -> None:
    server = joined()
    runtime, configs, groups = server.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})
    assert (runtime.code, configs.code, groups.code) == (28, 21, 201)
    server.say(runtime, body=b'{"table":{"runtime":"[ 1 days, 1 hours, 1 minutes, 2 seconds ]"}}')
    table = {
        "t": {"readQueueNums": 1, "writeQueueNums": 2, "perm": 6},
        "u": {"readQueueNums": 1, "writeQueueNums": 1, "perm": 15},
    }
    server.say(configs, body=json.dumps({"topicConfigTable": table}).encode())
    server.say(groups, body=GROUPS)
    first, second = server.asked
    assert (first.code, first.fields, second.fields) == (202, {"topic": "t"}, {"topic": "u"})
    stats = b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:{"minOffset":3,"maxOffset":9}}}'
    server.say(first, body=stats)
    [command] = server.say(second, 1)
    info = BrokerInfo.from_wire("h:1", body_of(command))
    assert (info.name, info.uptime_s, info.groups) == ("broker-a", 90062, 2)
    t, u = info.topics
    assert [(each.min_offset, each.max_offset) for each in t.ranges] == [(0, 0), (3, 9)]
    assert (t.config.read_queue_nums, t.config.write_queue_nums, int(u.config.perm)) == (1, 2, 6)


def test_a_message_is_found_by_its_id_in_every_topic_of_users() -> None:
    def stored(topic: str, stored_ms: int, message_id: str) -> bytes:
        host = Host(b"\x0a\x00\x00\x01", 10911)
        return encode_message(StoredMessage(topic, 0, 1, 1, b"x", {"UNIQ_KEY": message_id}, 1, stored_ms, host))

    server = joined()
    [configs] = server.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"message_id": "id", "max_n": 64})
    topics: dict[str, Any] = {"t": {}, "%RETRY%g": {}, "SCHEDULE_TOPIC_XXXX": {}}
    assert server.say(configs, body=json.dumps({"topicConfigTable": topics}).encode()) == []
    retry, topic = server.asked
    assert (retry.code, retry.fields["topic"], topic.fields["topic"]) == (12, "%RETRY%g", "t")
    assert {each.fields["_UNIQUE_KEY_QUERY"] for each in (retry, topic)} == {"true"}
    server.say(retry, body=stored("%RETRY%g", 9, "id"))
    [command] = server.say(topic, body=stored("t", 1, "id") + stored("t", 2, "another with the same hash"))
    assert [row[0] for row in body_of(command)] == ["%RETRY%g", "t"]


def known_topic(server: Server) -> None:
    server.edge._server.cluster.record_topic("t", {"broker-a": 1})


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


def test_a_reset_is_of_the_queues_that_are_named_only() -> None:
    server = joined()
    server.edge._server.cluster.record_topic("t", {"broker-a": 8})
    header = {"group": "g", "topic": "t", "to": "earliest", "queue_ids": [6]}
    [online] = server.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    server.say(online, 1)
    assert {each.fields["queueId"] for each in server.asked} == {"6"}


@pytest.mark.parametrize(("members", "committed", "known"), [(1, None, True), (0, None, False), (0, 7, True)])
def test_a_group_is_known_by_its_members_or_by_its_offsets(members: int, committed: int | None, known: bool) -> None:
    server = joined()
    known_topic(server)
    header = {"group": "g", "topic": "t", "to": "earliest", "dry_run": True}
    [online] = server.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    server.say(online, 0 if members else 1, json.dumps({"consumerIdList": ["c"] * members}).encode())
    [command] = ranged(server, 5, 50, committed)
    assert command.header == {"known": known}


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
    [call] = server.ask(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k1", "max_n": 64})
    assert len(body_of(server.say(call, body=body)[0])) == 3
    [call] = server.ask(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k1", "max_n": 2})
    assert body_of(server.say(call, 22)[0]) == []


def test_a_topic_is_deleted_at_brokers_and_name_servers() -> None:
    for code, theirs in ((RequestCode.DELETE_TOPIC_IN_BROKER, 215), (RequestCode.DELETE_TOPIC_IN_NAMESRV, 216)):
        server = joined()
        [call] = server.ask(code, {"topic": "t"})
        assert (call.code, call.fields["topic"]) == (theirs, "t")
        assert server.say(call)[0].code == 0
