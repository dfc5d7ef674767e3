"""Popped messages and their receipt handles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.pop_message import PopMessage, decode_handle, encode_handle, popped_of
from model.errors import InvalidParameter
from model.message import MessageExt
from model.message_queue import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 2)


def stored(times_delivered: int = 0) -> MessageExt:
    return MessageExt(QUEUE, 17, 1000, times_delivered, "orders", b"x", "", (), {}, 900, "id")


def test_a_popped_message_is_a_message_with_a_handle_and_a_count_of_its_deliveries() -> None:
    message = popped_of(stored(), 2, 99, 5000)
    assert isinstance(message, MessageExt)
    assert isinstance(message, PopMessage)
    assert (message.body, message.offset, message.times_delivered, message.attempts) == (b"x", 17, 2, 3)
    assert message.visible_ms == 5000
    assert decode_handle(message.receipt_handle) == (QUEUE, 17, 99)


@given(
    st.text(min_size=1), st.text(min_size=1), st.integers(0, 65_535), st.integers(0, 2**63), st.integers(1, 2**64 - 1)
)
def test_a_handle_that_is_kept_as_a_string_names_the_same_delivery(
    topic: str, broker: str, queue_id: int, offset: int, token: int
) -> None:
    queue = MessageQueue(topic, broker, queue_id)
    assert decode_handle(encode_handle(queue, offset, token)) == (queue, offset, token)


@pytest.mark.parametrize("text", ["", "hello", "é", encode_handle(QUEUE, 1, 2)[:-4], "wA==", "lQECAwQF"])
def test_what_is_no_handle_is_refused_with_a_word_on_where_to_get_one(text: str) -> None:
    with pytest.raises(InvalidParameter, match="no receipt handle: take it from"):
        decode_handle(text)
