"""Messages: payload bytes, checks before sending, and the tag hash that brokers filter on."""

from __future__ import annotations

import copy
import pickle
from array import array
from collections.abc import Callable
from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter, MessageIllegal
from model.limits import MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_PROPERTIES
from model.message import (
    DELAY_LEVELS_MS,
    MAX_DELAY_MS,
    Message,
    MessageExt,
    Properties,
    SendResult,
    check_message,
    check_sent_to,
    delay_of_level,
    encode_payload,
    retry_delay_ms,
    tag_hash,
    topic_of_payload,
)
from model.message_queue import MessageQueue

texts = st.text(max_size=10)


@given(
    st.builds(
        Message,
        topic=texts,
        body=st.binary(max_size=40),
        keys=st.lists(texts, max_size=3),
        tags=texts,
        properties=st.dictionaries(texts, texts, max_size=3),
    ),
    st.integers(0, 2**53),
    texts,
)
def test_a_payload_holds_the_fields_in_the_documented_order(message: Message, born_ms: int, message_id: str) -> None:
    assert msgpack.unpackb(encode_payload(message, born_ms, message_id)) == [
        message.topic,
        message.body,
        message.tags,
        message.keys,
        message.properties,
        born_ms,
        message_id,
    ]


def test_the_smallest_payload_has_these_bytes() -> None:
    assert encode_payload(Message("t", b"x"), 0, "i").hex(" ") == "97 a1 74 c4 01 78 a0 90 80 00 a1 69"


def is_sent_to(topic: str, payload: bytes) -> bool:
    try:
        check_sent_to(topic, [payload])
    except MessageIllegal:
        return False
    return True


_SAME_TOPIC = [msgpack.packb("orders"), b"\xd9\x06orders", b"\xda\x00\x06orders"]
"""A topic as every encoder writes it, and in forms that only waste bytes."""


@given(st.sampled_from(["orders", "bobs", "orders-eu"]), st.binary(max_size=20), st.sampled_from(["orders", "bobs"]))
def test_a_payload_is_for_its_own_topic_alone(inside: str, body: bytes, sent_to: str) -> None:
    payload = encode_payload(Message(inside, body), 1, "i")
    assert topic_of_payload(payload) == inside
    assert is_sent_to(sent_to, payload) == (inside == sent_to)


@pytest.mark.parametrize("topic", _SAME_TOPIC)
@pytest.mark.parametrize("array", [b"\x97", b"\xdc\x00\x07", b"\xdd\x00\x00\x00\x07"])
def test_another_form_of_the_same_payload_is_for_the_same_topic(array: bytes, topic: bytes) -> None:
    payload = array + topic + encode_payload(Message("t", b"x"), 0, "i")[3:]
    assert is_sent_to("orders", payload)
    assert not is_sent_to("bobs", payload)


@given(st.binary(max_size=40))
def test_what_no_consumer_takes_for_a_message_may_be_sent_anywhere(payload: bytes) -> None:
    assert (topic_of_payload(payload) is None) == is_sent_to("a-topic-that-is-not-in-it", payload)


def test_the_error_of_a_message_for_another_topic_names_both() -> None:
    payload = encode_payload(Message("orders", b"x"), 0, "i")
    check_sent_to("orders", [payload])
    with pytest.raises(MessageIllegal, match="a message for topic 'orders' was sent to 'bobs'"):
        check_sent_to("bobs", [b"no message", payload])


@pytest.mark.parametrize("body", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_any_bytes_are_a_body(body: bytes) -> None:
    message = Message("t", body)
    check_message(message)
    fields: Any = msgpack.unpackb(encode_payload(message, 0, ""))
    assert fields[1] == b"abc"


def test_a_plain_message_passes() -> None:
    check_message(Message("orders", b"x", keys=["42"], tags="new", properties={"a": "b"}))


@pytest.mark.parametrize("where", [{"keys": ["\ud800"]}, {"tags": "\ud800"}, {"properties": {"a": "\ud800"}}])
def test_half_of_a_surrogate_pair_is_refused_as_no_text(where: dict[str, Any]) -> None:
    with pytest.raises(MessageIllegal, match=r"'\\ud800' is not text"):
        encode_payload(Message("t", b"x", **where), 0, "id")


def test_a_message_is_refused_that_its_keys_and_properties_make_too_large() -> None:
    room = MAX_PAYLOAD_BYTES - len(encode_payload(Message("t", b"x", keys=["k" * 70_000]), 0, "id")) + 70_000
    assert len(encode_payload(Message("t", b"x", keys=["k" * room]), 0, "id")) == MAX_PAYLOAD_BYTES
    with pytest.raises(MessageIllegal, match=f"{MAX_PAYLOAD_BYTES + 1} bytes with its keys"):
        encode_payload(Message("t", b"x", keys=["k" * (room + 1)]), 0, "id")


@pytest.mark.parametrize("size_bytes", [1, MAX_BODY_BYTES])
def test_a_body_may_be_as_large_as_the_limit(size_bytes: int) -> None:
    check_message(Message("t", bytes(size_bytes)))


@pytest.mark.parametrize("size_bytes", [0, MAX_BODY_BYTES + 1])
def test_an_empty_or_oversized_body_is_refused_with_its_size(size_bytes: int) -> None:
    with pytest.raises(MessageIllegal, match=f"the body has {size_bytes} bytes; allowed are 1 to {MAX_BODY_BYTES}"):
        check_message(Message("t", bytes(size_bytes)))


@pytest.mark.parametrize("body", ["text", None, 5, [1]])
def test_a_body_that_is_not_bytes_is_refused_with_its_type(body: bytes) -> None:
    with pytest.raises(MessageIllegal, match=f"must be bytes, not {type(body).__name__}"):
        check_message(Message("t", body))


@pytest.mark.parametrize("tags", [" a", "a ", "\ta", "a\n", " "])
def test_a_tag_with_spaces_at_an_end_matches_no_subscription_and_is_refused_by_name(tags: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^tags must not begin or end with spaces"):
        check_message(Message("t", b"x", tags=tags))
    check_message(Message("t", b"x", tags=tags), is_foreign=True)
    check_message(Message("t", b"x", tags="a b"))


def test_a_body_is_bytes_one_after_another() -> None:
    wide, two = memoryview(array("I", [1, 2])), memoryview(b"abcd").cast("B", [2, 2])
    for body in (wide, memoryview(b"abcdef")[::2], two):
        with pytest.raises(InvalidParameter, match=r"^the body must be bytes one after another, got a memoryview"):
            check_message(Message("t", cast("bytes", body)))
    for good in (memoryview(b"abcd"), memoryview(b"abcd").cast("c"), bytearray(b"x")):
        check_message(Message("t", cast("bytes", good)))


@pytest.mark.parametrize("tags", ["a||b", None, 7])
def test_a_message_has_one_tag(tags: str) -> None:
    with pytest.raises(MessageIllegal, match="one tag"):
        check_message(Message("t", b"x", tags=tags))


def test_keys_are_a_list_up_to_the_limit() -> None:
    check_message(Message("t", b"x", keys=["k"] * MAX_KEYS))
    with pytest.raises(MessageIllegal, match=f"at most {MAX_KEYS} strings"):
        check_message(Message("t", b"x", keys=["k"] * (MAX_KEYS + 1)))
    with pytest.raises(MessageIllegal, match="got 'one-string'"):
        check_message(Message("t", b"x", keys="one-string"))


def test_properties_are_allowed_up_to_the_limit() -> None:
    check_message(Message("t", b"x", properties={str(number): "" for number in range(MAX_PROPERTIES)}))
    with pytest.raises(MessageIllegal, match=f"at most {MAX_PROPERTIES}"):
        check_message(Message("t", b"x", properties={str(number): "" for number in range(MAX_PROPERTIES + 1)}))


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("", 0), ("a", 97), ("Aa", 2112), ("BB", 2112), ("TagA", 2598919), ("hello", 99162322), ("\U0001f600", 1772899)],
)
def test_the_hash_of_a_tag_is_javas(tag: str, expected: int) -> None:
    assert tag_hash(tag) == expected


def test_the_hash_of_a_tag_is_a_signed_number_of_32_bits() -> None:
    assert tag_hash("polygenelubricants") == -(2**31)  # the well-known string whose hash is Integer.MIN_VALUE


@given(st.text(st.characters(), max_size=20))
def test_the_hash_of_a_tag_equals_its_definition(tag: str) -> None:
    units = tag.encode("utf-16-be", "surrogatepass")
    total = 0
    for position in range(len(units) // 2):
        unit = int.from_bytes(units[2 * position : 2 * position + 2], "big")
        total += unit * 31 ** (len(units) // 2 - 1 - position)
    assert tag_hash(tag) == (total + 2**31) % 2**32 - 2**31


def test_a_consumed_message_has_every_field_and_prints_short() -> None:
    queue = MessageQueue("%RETRY%g", "b", 1)
    message = MessageExt(queue, 7, 1000, 2, "orders", b"body", "new", ["42"], {"a": "b"}, 900, "id-1")
    assert message._asdict() == {
        "queue": queue,
        "offset": 7,
        "stored_ms": 1000,
        "times_delivered": 2,
        "topic": "orders",
        "body": b"body",
        "tags": "new",
        "keys": ["42"],
        "properties": {"a": "b"},
        "born_ms": 900,
        "message_id": "id-1",
    }
    assert repr(message) == "<MessageExt %RETRY%g@b:1+7 id=id-1 body=4B>"


def test_a_send_result_says_where_the_message_is() -> None:
    queue = MessageQueue("t", "b", 1)
    assert SendResult(queue, 5, "id") == (queue, 5, "id", "")


def test_the_levels_are_those_of_rocketmq() -> None:
    minute = 60_000
    assert DELAY_LEVELS_MS[:5] == (1_000, 5_000, 10_000, 30_000, minute)
    assert DELAY_LEVELS_MS[5:13] == tuple(n * minute for n in range(2, 10))
    assert DELAY_LEVELS_MS[13:] == (10 * minute, 20 * minute, 30 * minute, 60 * minute, 120 * minute)
    assert len(DELAY_LEVELS_MS) == 18
    assert max(DELAY_LEVELS_MS) < MAX_DELAY_MS


@pytest.mark.parametrize(("level", "expected_ms"), [(0, 0), (-1, 0), (1, 1_000), (18, 7_200_000), (99, 7_200_000)])
def test_a_level_outside_the_table_is_none_or_the_last(level: int, expected_ms: int) -> None:
    assert delay_of_level(level) == expected_ms


def test_sixteen_retries_go_from_ten_seconds_to_two_hours() -> None:
    waits = [retry_delay_ms(times) for times in range(MAX_ATTEMPTS)]
    assert (waits[0], waits[1], waits[-1]) == (10_000, 30_000, 7_200_000)
    assert waits == sorted(waits)


@pytest.mark.parametrize("message", [None, "text", b"body", ("t", b"body"), ["t"]])
def test_what_is_not_a_message_is_refused_with_how_to_write_one(message: Any) -> None:
    with pytest.raises(MessageIllegal, match=r"got .*: write Message\(topic, body\)"):
        check_message(message)


@pytest.mark.parametrize("topic", [None, 5, b"t", ["t"]])
def test_a_topic_that_is_not_a_string_is_refused_as_such(topic: Any) -> None:
    with pytest.raises(InvalidParameter, match="the topic of a message must be a string"):
        check_message(Message(topic, b"x"))


def test_the_properties_of_a_received_message_refuse_every_change_and_their_copies_are_plain() -> None:
    properties = Properties({"a": "b"})
    changes: list[Callable[[], object]] = [
        lambda: properties.__setitem__("a", "c"),
        lambda: properties.__delitem__("a"),
        lambda: properties.__ior__({"c": "d"}),
        lambda: properties.setdefault("c", "d"),
        lambda: properties.update(c="d"),
        lambda: properties.pop("a"),
        properties.popitem,
        properties.clear,
    ]
    for change in changes:
        with pytest.raises(TypeError, match=r"cannot be changed: change a copy, dict\(properties\)"):
            change()
    for copied in (
        copy.deepcopy(properties),
        pickle.loads(pickle.dumps(properties)),
        properties | {},
        dict(properties),
    ):
        assert type(copied) is dict
        assert copied == properties == {"a": "b"}
