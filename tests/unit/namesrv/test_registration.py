"""A registration is read with every part checked, and says which part is wrong."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.topic_route import MessageType, Perm
from namesrv.registration import BrokerKey, parse_registration
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from tests.unit.namesrv.registrations import broker, topic, wire

FORM = r"the body must be an array of \[topic, read queue nums, write queue nums, perm\], at most 100000"
GOOD = broker("broker-a", topic("orders", 8, 4, Perm.READ), "other", broker_id=2, version=7, expiry_s=1.5)


def request(body: bytes | None = None, **changes: Any) -> Command:
    header, good_body = wire(GOOD)
    return Command(REQUEST, RequestCode.REGISTER_BROKER, 1, {**header, **changes}, good_body if body is None else body)


def test_a_registration_is_read_as_it_was_written() -> None:
    assert parse_registration(request()) == GOOD
    assert GOOD.key == BrokerKey("broker-a", 2)


def test_the_message_types_are_those_of_the_topics_in_their_order() -> None:
    typed = broker("broker-a", topic("orders", message_type=MessageType.TRANSACTION), "other")
    header, body = wire(typed)
    assert header["message_types"] == "40"
    assert parse_registration(Command(REQUEST, RequestCode.REGISTER_BROKER, 1, header, body)) == typed


@pytest.mark.parametrize(
    ("types", "why"),
    [
        ("4", "must have a digit for each of 2 topics, has 1"),
        ("000", "must have a digit for each of 2 topics, has 3"),
        ("05", "field 'message_types': 5 is not a valid MessageType"),
        ("0x", "field 'message_types': "),
        ("0²", "field 'message_types': "),
    ],
)
def test_message_types_that_are_not_those_of_the_topics_are_refused(types: str, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        parse_registration(request(message_types=types))


def test_an_address_has_one_spelling() -> None:
    assert parse_registration(request(address=" [::1]:10911 ")).address == "[::1]:10911"
    assert parse_registration(request(address="host:00080")).address == "host:80"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cluster": ""}, "cluster name ''"),
        ({"broker_name": "a b"}, "broker name 'a b'"),
        ({"broker_name": "x" * 256}, "broker name"),
        ({"address": "nowhere"}, "field 'address': 'nowhere' is not an address"),
        ({"address": "host:0"}, "no client can connect to host:0"),
    ],
)
def test_a_bad_name_or_address_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        parse_registration(request(**changes))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", f"{FORM}: "),
        (b"\xc1", f"{FORM}: "),
        (b"\x91", f"{FORM}: "),
        (b"\xdd\xff\xff\xff\xff", f"{FORM}: "),
        (msgpack.packb({"orders": 4}), f"{FORM}, got a dict"),
        (msgpack.packb("orders"), f"{FORM}, got 'orders'"),
        (msgpack.packb(["orders"]), f"{FORM}, and row 0 is 'orders'"),
        (msgpack.packb([["orders", 4, 4]]), rf"{FORM}, and row 0 is \[str, int, int\]"),
        (msgpack.packb([["orders", 4, 4.0, 6]]), rf"{FORM}, and row 0 is \[str, int, float, int\]"),
        (msgpack.packb([["or ders", 4, 4, 6]]), "topic name 'or ders'"),
        (msgpack.packb([["orders", 4, 4, 8]]), f"{FORM}: perm of row 0 must be 0 to 7, got 8"),
        (msgpack.packb([["orders", 0, 0, 6]]), "topic 'orders' needs at least one queue"),
        (msgpack.packb([["orders", 4, 4, 6], ["orders", 8, 8, 6]]), "each topic once"),
    ],
)
def test_a_body_that_is_not_a_list_of_topics_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        parse_registration(request(body))


@pytest.mark.parametrize("row", [None, {}, "t", [], ["t", 1, 1], ["t", 1, 1, 6, 0], [5, 1, 1, 6], [b"t", 1, 1, 6]])
def test_a_row_that_is_not_a_topic_is_refused_with_the_form_of_one(row: object) -> None:
    with pytest.raises(InvalidParameter, match=f"{FORM}, and row 0 is "):
        parse_registration(request(msgpack.packb([row])))


@pytest.mark.parametrize("numbers", [["1", 1, 6], [1, 1.0, 6], [1, 1, None], [True, 1, 6]])
def test_counts_that_are_not_whole_numbers_are_refused(numbers: list[object]) -> None:
    with pytest.raises(InvalidParameter, match=rf"{FORM}, and row 0 is \[str, "):
        parse_registration(request(msgpack.packb([["t", *numbers]])))


@pytest.mark.parametrize("perm", [-1, 8])
def test_an_unknown_permission_is_refused(perm: int) -> None:
    with pytest.raises(InvalidParameter, match=f"must be 0 to 7, got {perm}"):
        parse_registration(request(msgpack.packb([["t", 1, 1, perm]])))


@given(st.binary(max_size=40))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        parse_registration(request(body))
    except InvalidParameter:
        return
