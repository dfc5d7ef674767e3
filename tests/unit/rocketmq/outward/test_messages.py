"""Messages of our client, call by call, against what servers of RocketMQ answer."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import MessageIllegal
from model.message import Message, encode_payload
from model.record import iter_records
from remoting.command import Command
from remoting.request_code import RequestCode
from rocketmq.frame import Frame, encode_frame
from rocketmq.message import Host, StoredMessage, batch_entries, encode_message, parse_properties
from rocketmq.pulling import decode_payload
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined
from tests.unit.rocketmq.outward.test_routes import asked

QUEUE = {"topic": "t", "queue_id": 0}
STORE = Host(b"\x0a\x00\x00\x01", 10911)


def sent(message: Message, version: int = 479, **header: Any) -> tuple[Server, Frame]:
    server = Server()
    [first] = server.ask(RequestCode.GET_SERVER_STATE, {})
    server.edge.feed(_answer(first, version))
    [call] = server.ask(
        RequestCode.SEND_MESSAGE, {**QUEUE, "tag_hash": 0, **header}, encode_payload(message, 1000, "ID")
    )
    return server, call


def _answer(call: Frame, version: int) -> bytes:
    return encode_frame(Frame(0, 1, call.opaque, {}, version=version))


def test_a_message_is_sent_with_all_that_it_has() -> None:
    message = Message("t", b"hello", keys=("k1", "k2"), tags="red", properties={"colour": "grün"})
    server, call = sent(message)
    assert (call.code, call.body) == (310, b"hello")
    assert {name: call.fields[name] for name in "abceg"} == {
        "a": "DEFAULT_PRODUCER",
        "b": "t",
        "c": "TBW102",
        "e": "0",
        "g": "1000",
    }
    assert parse_properties(call.fields["i"]) == {
        **{"TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "ID", "colour": "grün", "WAIT": "true"}
    }
    [command] = server.say(call, queueOffset=12, queueId=0, msgId="X")
    assert (command.code, command.header["offset"]) == (0, 12)


@pytest.mark.parametrize(
    ("delay_ms", "version", "name", "value"),
    [(5000, 409, "DELAY", "2"), (5000, 479, "DELAY", "2"), (1234, 479, "TIMER_DELAY_MS", "1234")],
)
def test_a_delay_is_a_level_where_there_is_one(delay_ms: int, version: int, name: str, value: str) -> None:
    server, call = sent(Message("t", b"m"), version, delay_ms=delay_ms)
    assert parse_properties(call.fields["i"])[name] == value
    assert server.say(call, queueOffset=3)[0].header["offset"] == -1


def test_a_recall_has_the_handle_that_the_server_answered_its_send_with() -> None:
    server, call = sent(Message("t", b"m"), delay_ms=1234)
    [stored] = server.say(call, queueOffset=3, recallHandle="abc")
    assert stored.header == {"offset": -1, "recall_handle": "abc"}
    [recall] = server.ask(RequestCode.RECALL_MESSAGE, {"topic": "t", "handle": "abc"})
    assert (recall.code, recall.fields["topic"], recall.fields["recallHandle"]) == (370, "t", "abc")
    assert server.say(recall, msgId="ID")[0].header == {"message_id": "ID"}


def test_a_delay_that_a_server_would_not_keep_is_refused() -> None:
    with pytest.raises(MessageIllegal, match=r"before 5\.0 delays by 1, 5, 10"):
        sent(Message("t", b"m"), 409, delay_ms=1234)


def test_a_batch_has_an_entry_for_each_message() -> None:
    rows = [[0, encode_payload(Message("t", b"%d" % n, tags="x"), 1000, f"ID{n}")] for n in range(3)]
    server, call = asked(RequestCode.SEND_BATCH_MESSAGE, QUEUE, rows)
    assert (call.code, call.fields["m"]) == (320, "true")
    entries = list(batch_entries(call.body or b""))
    assert [(each.body, each.properties["UNIQ_KEY"], each.properties["TAGS"]) for each in entries] == [
        (b"%d" % n, f"ID{n}", "x") for n in range(3)
    ]
    assert server.say(call, queueOffset=4)[0].header["offset"] == 4


def pulled(server: Server, code: int, body: bytes | None) -> tuple[Frame, Command]:
    header = {"group": "g", **QUEUE, "offset": 3, "max_n": 32, "suspend_ms": 15000, "commit": 3}
    [call] = server.ask(RequestCode.PULL_MESSAGE, header)
    [command] = server.say(call, code, body, nextBeginOffset=5, minOffset=0, maxOffset=9)
    return call, command


def test_a_pull_asks_for_the_tags_of_the_subscription_and_is_answered_with_records() -> None:
    stored = StoredMessage("t", 0, 3, 300, b"hello", {"TAGS": "a", "UNIQ_KEY": "ID", "x": "y"}, 1000, 2000, STORE, 1)
    again = stored._replace(topic="%RETRY%g", properties={"RETRY_TOPIC": "t"}, offset=4)
    call, command = pulled(joined(), 0, encode_message(stored) + encode_message(again))
    assert {
        name: call.fields[name] for name in ("sysFlag", "subscription", "commitOffset", "suspendTimeoutMillis")
    } == {**{"sysFlag": "7", "subscription": "a || b", "commitOffset": "3", "suspendTimeoutMillis": "15000"}}
    first, second = iter_records(command.body or b"")
    assert (first.queue_offset, first.stored_ms, first.times_delivered, first.tag_hash) == (3, 2000, 1, 97)
    assert msgpack.unpackb(first.payload) == ["t", b"hello", "a", [], {"x": "y"}, 1000, "ID"]
    assert decode_payload(second.payload, "t") is not None
    assert b"%RETRY%" not in second.payload
    assert command.header == {"next_offset": 5, "min_offset": 0, "max_offset": 9}


def test_a_pull_that_finds_nothing_says_where_to_go_on() -> None:
    _, command = pulled(joined(), 19, None)
    assert (command.code, command.header["next_offset"], command.body) == (19, 5, None)


def test_a_message_is_sent_back_by_its_place_in_the_log_which_a_pull_of_it_says() -> None:
    server = joined()
    header = {"group": "g", **QUEUE, "offset": 3, "max_attempts": 16, "delay_ms": 25_000}
    [look] = server.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    stored = encode_message(StoredMessage("t", 0, 3, 300, b"x", {"UNIQ_KEY": "ID"}, 1000, 2000, STORE))
    assert (look.code, look.fields["maxMsgNums"], look.fields["queueOffset"]) == (11, "1", "3")
    assert server.say(look, 0, stored, nextBeginOffset=4, minOffset=0, maxOffset=4) == []
    [back] = server.asked
    assert (back.code, back.fields["offset"], back.fields["delayLevel"], back.fields["originMsgId"]) == (
        36,
        "300",
        "4",
        "ID",
    )
    assert server.say(back)[0].header == {"dead": False}


def test_a_pull_by_sql_has_the_filter_and_its_type() -> None:
    server = joined()
    header = {"group": "g", **QUEUE, "offset": 3, "max_n": 32, "suspend_ms": 0, "sql": "price > 10"}
    [call] = server.ask(RequestCode.PULL_MESSAGE_BY_SQL, header)
    assert call.code == RequestCode.PULL_MESSAGE
    assert (call.fields["subscription"], call.fields["expressionType"]) == ("price > 10", "SQL92")
