"""Recall handles: RocketMQ's words, and nothing else is read as one."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from model.errors import InvalidParameter
from model.message_queue import MessageQueue
from model.recall import RecallHandle, handle_in, parse_recall_handle

HANDLE = RecallHandle("orders", "broker-a", 1_700_000_000_000, "01AB", 7)
QUEUE = MessageQueue("orders", "broker-a", 3)


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_a_handle_is_read_as_it_was_written_and_begins_with_the_words_of_rocketmq() -> None:
    assert parse_recall_handle(HANDLE.text()) == HANDLE
    assert HANDLE.text() == encoded("v1 orders broker-a 1700000000000 01AB 7")


def test_a_handle_of_rocketmq_has_no_place() -> None:
    without = HANDLE._replace(offset=-1)
    assert without.text() == encoded("v1 orders broker-a 1700000000000 01AB")
    assert parse_recall_handle(without.text()) == without


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "?" * 40, "ü" * 40, "A" * 100_000, HANDLE.text()[:-8]),
        *map(encoded, ("v1 orders broker-a 17", "v2 orders broker-a 17 01AB", "v1 orders broker-a soon 01AB")),
        *map(encoded, ("v1 orders broker-a -1 01AB", "v1 orders broker-a 17  7", "v1 orders broker-a 17 01AB -7")),
    ],
)
def test_a_text_that_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"not a recall handle: .*; take the one of the"):
        parse_recall_handle(text)


def test_the_answer_of_a_send_has_the_handle_or_its_parts_or_none() -> None:
    place = {"offset": -1, "delayed_offset": 7, "due_ms": HANDLE.due_ms}
    assert handle_in(place, QUEUE, "01AB") == HANDLE.text()
    assert handle_in({"offset": -1, "recall_handle": "theirs"}, QUEUE, "01AB") == "theirs"
    assert handle_in({"offset": 5}, QUEUE, "01AB") == ""
