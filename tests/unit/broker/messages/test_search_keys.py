"""What a stored message can be found by."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages.search_keys import DelayedRecord, SearchKeys, id_key, topic_key, unpack_delayed
from model.limits import MAX_KEYS
from model.message import Message, encode_payload
from model.names import SCHEDULE_TOPIC

NAMES = {1: "orders", 2: "%RETRY%g", 3: SCHEDULE_TOPIC}
TERMS = SearchKeys(NAMES)
PAYLOAD = encode_payload(Message("orders", b"body", keys=["k1", "k2"], tags="t"), 5, "id-1")


def test_a_message_is_found_by_its_id_and_by_each_of_its_keys() -> None:
    assert TERMS(1, 0, PAYLOAD) == {id_key("id-1"), topic_key("orders", "k1"), topic_key("orders", "k2")}


def test_a_copy_for_a_retry_is_found_under_both_topics() -> None:
    of_copy = {topic_key("%RETRY%g", "k1"), topic_key("%RETRY%g", "k2")}
    assert TERMS(2, 0, PAYLOAD) == TERMS(1, 0, PAYLOAD) | of_copy


def test_a_message_of_a_deleted_topic_keeps_the_name_that_its_producer_gave() -> None:
    assert TERMS(99, 0, PAYLOAD) == TERMS(1, 0, PAYLOAD)


def test_a_parked_message_is_found_as_if_it_were_delivered() -> None:
    parked = msgpack.packb([77, "%RETRY%g", 0, 5, 2, PAYLOAD])
    assert TERMS(3, 0, parked) == TERMS(2, 0, PAYLOAD)
    assert unpack_delayed(parked) == DelayedRecord(77, "%RETRY%g", 0, 5, 2, PAYLOAD)


def test_the_mark_of_a_delivery_is_not_a_message() -> None:
    assert TERMS(3, 1, msgpack.packb([7])) == frozenset()
    assert TERMS(3, 0, msgpack.packb([7])) == frozenset()


@given(st.binary() | st.builds(lambda prefix: prefix + PAYLOAD[3:], st.binary(max_size=4)))
def test_bytes_that_are_not_message_have_no_terms_and_do_no_harm(payload: bytes) -> None:
    for topic_id in (1, 3):
        assert isinstance(TERMS(topic_id, 0, payload), frozenset)
    assert TERMS(1, 0, msgpack.packb(payload)) == frozenset()


@pytest.mark.parametrize(
    "fields",
    [
        ["orders", b"", "", "not a list", {}, 0, "id"],
        ["orders", b"", "", ["k", 1], {}, 0, "id"],
        ["orders", "text", "", ["k"], {}, 0, "id"],
        ["orders", b"", "", ["k"], {7: "not a string"}, 0, "id"],
        ["orders", b"", "", ["k"], {}, 0, None],
        [[], b"", "", ["k"], {}, 0, "id"],
        ["orders", b"", "", ["k"], {}, 0],
    ],
)
def test_what_a_consumer_could_not_decode_is_not_a_message(fields: list[object]) -> None:
    assert TERMS(1, 0, msgpack.packb(fields)) == frozenset()


def test_more_keys_than_a_message_may_have_are_not_looked_at() -> None:
    keys = [str(number) for number in range(MAX_KEYS + 1)]
    assert len(TERMS(1, 0, msgpack.packb(["orders", b"", "", keys, {}, 0, "id"]))) == MAX_KEYS + 1


def test_an_id_and_a_key_of_the_same_text_are_different_terms() -> None:
    assert id_key("x") != topic_key("", "x")
    assert topic_key("a", "b") != topic_key("ab", "")
