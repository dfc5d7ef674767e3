"""Popped messages and their receipt handles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.pop.message import PopMessage, decode_handle, encode_handle, group_by_delivery, handle_of, make_popped
from model.errors import InvalidParameter
from model.message import MessageExt
from model.message_queue import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 2)


def stored(times_delivered: int = 0) -> MessageExt:
    return MessageExt(QUEUE, 17, 1000, times_delivered, "orders", b"x", "", (), {}, 900, "id")


def test_a_popped_message_is_a_message_with_a_handle_and_a_count_of_its_deliveries() -> None:
    message = make_popped(stored(), 2, 99, 5000)
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
def test_what_is_not_a_handle_is_refused_with_a_word_on_where_to_get_one(text: str) -> None:
    with pytest.raises(InvalidParameter, match="not a receipt handle: take it from"):
        decode_handle(text)


def popped(offset: int, token: int) -> PopMessage:
    return make_popped(stored()._replace(offset=offset), 0, token, 5000)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3), st.booleans()), max_size=12), st.booleans())
def test_runs_have_the_handles_of_all_messages_in_their_order(
    given_messages: list[tuple[int, int, bool]], with_strings: bool
) -> None:
    messages = [popped(offset, token) for offset, token, _ in given_messages]
    mixed: list[PopMessage | str] = [
        message.receipt_handle if with_strings and is_string else message
        for message, (_, _, is_string) in zip(messages, given_messages, strict=True)
    ]
    runs = group_by_delivery(mixed)
    assert [(run.queue, offset, run.token) for run in runs for offset in run.offsets] == list(map(handle_of, messages))


def test_what_one_pop_brought_is_one_run_until_one_of_it_is_renewed() -> None:
    messages = [popped(offset, 7) for offset in range(32)]
    assert group_by_delivery(messages) == [(QUEUE, 7, list(range(32)))]
    messages[31].renewed(8, 6000)
    assert (messages[31].token, messages[31].visible_ms, messages[30].token) == (8, 6000, 7)
    assert group_by_delivery(messages) == [(QUEUE, 7, list(range(31))), (QUEUE, 8, [31])]


def test_deliveries_of_two_queues_are_never_one_run_even_if_their_tokens_are_the_same() -> None:
    other = make_popped(stored()._replace(queue=QUEUE._replace(queue_id=3)), 0, 7, 5000)
    assert group_by_delivery([popped(16, 7), other]) == [(QUEUE, 7, [16]), (other.queue, 7, [17])]
