"""Transactions of our client at brokers of RocketMQ."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.response_code import ResponseCode
from model.transaction import EndOutcome, TransactionState
from remoting.command import ONE_WAY, Command
from remoting.request_code import RequestCode
from rocketmq.fields import json_bytes
from rocketmq.frame import ONE_WAY_BIT, Frame, encode_frame
from rocketmq.message import Host, StoredMessage, encode_message, offset_message_id, parse_properties
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined

HOST = Host(b"\x0a\x00\x00\x01", 10911)


def payload(body: bytes, message_id: str) -> bytes:
    packed: bytes = msgpack.packb(["t", body, "red", ["k"], {}, 5, message_id])
    return packed


def begun(server: Server, *places: tuple[int, int], check_after_ms: int = -1) -> int:
    """Send half messages, which are stored at these offsets of the half topic and places in the log."""
    rows = [["t", 1, 0, check_after_ms, payload(b"x", f"id{n}")] for n in range(len(places))]
    calls = list(server.ask(RequestCode.SEND_HALF_MESSAGE, {"group": "tx"}, rows))
    received: list[Command] = []
    for call, (offset, physical) in zip(calls, places, strict=True):
        received += server.say(call, queueOffset=offset, msgId=offset_message_id(HOST, physical))
    [command] = received
    return int(command.header["offset"])


def ended(server: Server, rows: list[list[Any]], *codes: int, **header: bool) -> list[int]:
    """End transactions; brokers answer with these codes."""
    calls = list(server.ask(RequestCode.END_TRANSACTION, {"group": "tx", **header}, rows))
    received: list[Command] = []
    for call, code in zip(calls, codes, strict=True):
        received += server.say(call, code)
    outcomes: Any = msgpack.unpackb(received[0].body or b"")
    return list(outcomes)


@pytest.mark.parametrize(("check_after_ms", "seconds"), [(-1, None), (20, "1"), (90_000, "90")])
def test_a_half_message_is_a_send_that_is_marked_and_names_its_group(check_after_ms: int, seconds: str | None) -> None:
    server = joined()
    rows = [["t", 1, 0, check_after_ms, payload(b"x", "id")]]
    [call] = server.ask(RequestCode.SEND_HALF_MESSAGE, {"group": "tx"}, rows)
    assert (call.code, call.fields["a"], call.fields["b"], call.fields["e"], call.fields["f"]) == (
        310,
        "tx",
        "t",
        "1",
        "4",
    )
    properties = parse_properties(call.fields["i"])
    assert (properties["TRAN_MSG"], properties["PGROUP"], properties["UNIQ_KEY"]) == ("true", "tx", "id")
    assert properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS") == seconds


def test_an_end_names_the_place_of_its_half_message_although_our_client_has_one_number() -> None:
    server = joined()
    first = begun(server, (7, 1000), (8, 2000))
    calls = server.ask(RequestCode.END_TRANSACTION, {"group": "tx"}, [[first, "id0", 8], [first + 1, "id1", 12]])
    said = [
        (
            each.code,
            each.fields["tranStateTableOffset"],
            each.fields["commitLogOffset"],
            each.fields["commitOrRollback"],
        )
        for each in calls
    ]
    assert said == [(37, "7", "1000", "8"), (37, "8", "2000", "12")]
    assert {each.fields["fromTransactionCheck"] for each in calls} == {"false"}
    assert {each.fields["producerGroup"] for each in calls} == {"tx"}


def test_the_outcome_of_each_end_is_distinguished() -> None:
    server = joined()
    first = begun(server, (7, 1000), (8, 2000))
    rows = [[first, "id0", 8], [first + 1, "id1", 8], [first + 9, "unknown here", 8]]
    outcomes = ended(server, rows, 0, ResponseCode.SYSTEM_ERROR, 0)
    assert outcomes == [EndOutcome.DONE, EndOutcome.NOT_FOUND, EndOutcome.NOT_FOUND]


def test_a_transaction_that_stays_open_is_not_ended_because_brokers_do_not_answer_that() -> None:
    server = joined()
    number = begun(server, (7, 1000))
    [call] = server.ask(RequestCode.END_TRANSACTION, {"group": "tx"}, [[number, "id0", int(TransactionState.UNKNOWN)]])
    assert call.code == RequestCode.GET_MIN_OFFSET
    assert ended(server, [[number, "id0", 0]], 0) == [EndOutcome.DONE]


def test_a_check_is_asked_with_the_message_and_its_answer_names_the_place_that_the_broker_said() -> None:
    server = joined()
    properties = {"PGROUP": "tx", "UNIQ_KEY": "id", "TAGS": "red", "TRANSACTION_CHECK_TIMES": "2"}
    body = encode_message(StoredMessage("t", 3, 44, 4000, b"x", properties, 1, 2, HOST))
    asked = {"tranStateTableOffset": "44", "commitLogOffset": "4000", "msgId": "id", "transactionId": "id"}
    [command] = server.edge.feed(encode_frame(Frame(39, ONE_WAY_BIT, 1, asked, body)))
    header = command.header
    assert (command.flags, command.code) == (ONE_WAY, RequestCode.CHECK_TRANSACTION_STATE)
    assert (header["group"], header["topic"], header["queue_id"], header["n"]) == ("tx", "t", 3, 2)
    row: Any = msgpack.unpackb(command.body or b"")
    assert (row[0], row[1], row[2], row[6]) == ("t", b"x", "red", "id")
    calls = server.ask(RequestCode.END_TRANSACTION, {"group": "tx", "from_check": True}, [[header["offset"], "id", 8]])
    fields = calls[0].fields
    assert (fields["tranStateTableOffset"], fields["commitLogOffset"]) == ("44", "4000")
    assert fields["fromTransactionCheck"] == "true"


@pytest.mark.parametrize("body", [b"", b"garbage", json_bytes({})])
def test_a_check_of_what_is_not_a_message_is_dropped_and_the_connection_stays(body: bytes) -> None:
    server = joined()
    asked = {"tranStateTableOffset": "44", "commitLogOffset": "4000"}
    assert server.edge.feed(encode_frame(Frame(39, ONE_WAY_BIT, 1, asked, body))) == []
    assert server.edge.error is None
