"""Pops of our client at brokers of RocketMQ: handles, acknowledgements, and answers that lie."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import ReceiptHandleDead
from model.limits import MAX_ROCKETMQ_HANDLES
from model.record import iter_records
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.frame import Frame
from rocketmq.message import Host, StoredMessage, encode_message
from rocketmq.outward.edge import Cluster
from rocketmq.popping import POP_CK
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined

HOST = Host(b"\x0a\x00\x00\x01", 10911)
POP = {"group": "g", "topic": "t", "queue_id": -1, "max_n": 32, "invisible_ms": 10_000, "suspend_ms": 5000}
TERMS: dict[str, Any] = {"popTime": 1000, "invisibleTime": 10_000, "reviveQid": 3}


def stored(offset: int, queue_id: int = 0, topic: str = "t", times: int = 0, **properties: str) -> bytes:
    """A message in the answer of a pop."""
    message = StoredMessage(topic, queue_id, offset, offset, b"x", properties, 1, 2, HOST, times_delivered=times)
    return encode_message(message)


def popped(server: Server, *messages: bytes, **fields: Any) -> list[Any]:
    """The batches that our client gets."""
    [call] = server.ask(RequestCode.POP_MESSAGE, POP)
    assert call.code == 200050
    [command] = server.say(call, body=b"".join(messages), **TERMS, **fields)
    batches: Any = msgpack.unpackb(command.body or b"")
    return list(batches)


def acked(server: Server, *rows: object) -> list[Frame]:
    """The calls by which batches are acknowledged."""
    return list(server.ask(RequestCode.BATCH_ACK_MESSAGE, {"group": "g"}, list(rows)))


def test_a_pop_says_what_the_member_subscribes_to_and_where_a_new_group_begins() -> None:
    server = joined()
    for start, mode in ((None, "1"), ("LAST_OFFSET", "1"), ("FIRST_OFFSET", "0")):
        [call] = server.ask(RequestCode.POP_MESSAGE, {**POP, "consume_from": start})
        assert (call.fields["exp"], call.fields["initMode"], call.fields["queueId"]) == ("a || b", mode, "-1")
    [call] = server.ask(RequestCode.POP_MESSAGE_BY_SQL, {**POP, "sql": "price > 10"})
    assert (call.code, call.fields["exp"], call.fields["expType"]) == (200050, "price > 10", "SQL92")
    [call] = server.ask(RequestCode.POP_MESSAGE, {**POP, "order": True, "max_n": 64})
    assert (call.fields["order"], call.fields["maxMsgNums"]) == ("true", "32")


def test_a_message_is_acknowledged_by_the_words_that_its_pop_was_answered_with() -> None:
    server = joined()
    [first, second] = popped(server, stored(7), stored(8), stored(4, 1), startOffsetInfo="0 0 5;0 1 4")
    assert (first[:2], first[3:5], second[:2]) == (["t", 0], [11_000, [1, 1]], ["t", 1])
    assert [record.queue_offset for record in iter_records(first[5])] == [7, 8]
    one, two = acked(server, [*first[:3], [7, 8]])
    assert one.fields["extraInfo"] == "5 1000 10000 3 0 broker-a 0 7"
    assert two.fields["extraInfo"].endswith(" 0 8")
    assert server.say(one) == []
    [command] = server.say(two, 208)
    assert msgpack.unpackb(command.body or b"") == [["t", 0, 8]]


def test_without_a_word_on_the_begin_of_a_queue_its_first_message_is_it() -> None:
    server = joined()
    [batch] = popped(server, stored(7), stored(8))
    [call] = acked(server, [*batch[:3], [8]])
    assert call.fields["extraInfo"].split(" ")[0] == "7"


def test_a_message_that_is_redelivered_is_acknowledged_in_its_retry_topic() -> None:
    server = joined()
    own: dict[str, Any] = {POP_CK: "2 900 10000 1 1 broker-a 0 2"}
    [batch] = popped(server, stored(99, 5, times=2, **own))
    assert (batch[:2], batch[4]) == (["%RETRY%g_t", 0], [3])
    [call] = acked(server, [*batch[:3], [2]])
    assert (call.fields["topic"], call.fields["offset"]) == ("%RETRY%g_t", "2")
    assert call.fields["extraInfo"] == own[POP_CK]


def test_deliveries_of_a_queue_in_order_are_counted_by_the_broker() -> None:
    server = joined()
    [batch, other] = popped(server, stored(7), stored(8), stored(1, 1), orderCountInfo="0 qo0%8 2;0 1 4")
    assert (batch[4], other[4]) == ([1, 3], [5])


@pytest.mark.parametrize(("code", "ours"), [(210, ResponseCode.PULL_NOT_FOUND), (209, ResponseCode.POLLING_FULL)])
def test_a_pop_without_a_message_says_why(code: int, ours: int) -> None:
    server = joined()
    [call] = server.ask(RequestCode.POP_MESSAGE, POP)
    assert server.say(call, code)[0].code == ours


def test_a_changed_invisible_time_makes_a_new_handle() -> None:
    server = joined()
    [batch] = popped(server, stored(6), stored(7))
    header = {"group": "g", "topic": "t", "queue_id": 0, "offset": 7, "token": batch[2], "invisible_ms": 500}
    [call] = server.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    assert (call.code, call.fields["invisibleTime"]) == (200053, "500")
    [command] = server.say(call, popTime=2000, invisibleTime=500, reviveQid=1)
    assert command.header["visible_ms"] == 2500
    [call] = acked(server, ["t", 0, command.header["token"], [7]])
    assert call.fields["extraInfo"] == "7 2000 500 1 0 broker-a 0 7"
    with pytest.raises(ReceiptHandleDead):
        server.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {**header, "token": 12345})


def test_a_handle_that_is_not_known_is_dead() -> None:
    server = joined()
    [call] = acked(server, ["t", 0, 77, [1, 2]])
    assert call.code == 38
    assert msgpack.unpackb(server.say(call, 1)[0].body or b"") == [["t", 0, 1], ["t", 0, 2]]


@pytest.mark.parametrize(
    "lie", [{"startOffsetInfo": "0 0"}, {"startOffsetInfo": "0 x 1"}, {"orderCountInfo": "0 1 x"}, {"popTime": "soon"}]
)
def test_an_answer_to_a_pop_that_lies_is_an_error_that_says_so(lie: dict[str, Any]) -> None:
    server = joined()
    [call] = server.ask(RequestCode.POP_MESSAGE, POP)
    [command] = server.say(call, body=stored(1), **{**TERMS, **lie})
    assert command.code == ResponseCode.SYSTEM_ERROR
    assert "POP_MESSAGE cannot be read" in command.header["remark"]
    [call] = server.ask(RequestCode.POP_MESSAGE, POP)
    [command] = server.say(call, body=stored(1, POP_CK="one two"), **TERMS)
    assert "has not 8 words" in command.header["remark"]


def test_old_handles_make_room_for_new_ones() -> None:
    cluster = Cluster()
    numbers = [cluster.keep(("1",)) for _ in range(MAX_ROCKETMQ_HANDLES + 1)]
    assert cluster.handle(numbers[0]) is None
    assert cluster.handle(numbers[1]) == cluster.handle(numbers[-1]) == ("1",)
