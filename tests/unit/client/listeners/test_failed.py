"""What a listener may say of a failure, and what cannot be meant."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.listeners.failed import FAILED, Failed
from model.errors import InvalidParameter
from model.message import MAX_DELAY_MS, MessageExt
from model.message_queue import MessageQueue


def batch(n: int) -> list[MessageExt]:
    return [MessageExt(MessageQueue("t", "b", 0), at, 0, 0, "t", b"x", "", (), {}, 0, f"id{at}") for at in range(n)]


@given(n=st.integers(0, 20), done=st.integers(0, 30))
def test_every_message_of_a_batch_is_either_processed_or_failed_and_those_processed_come_first(
    n: int, done: int
) -> None:
    messages = batch(n)
    processed, failed = Failed(done=done).split(messages)
    assert [*processed, *failed] == messages
    assert len(processed) == min(n, done)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"retry_after_s": -1}, "retry_after_s must be 0 to 3456000, got -1"),
        ({"retry_after_s": MAX_DELAY_MS / 1000 + 1}, "retry_after_s must be 0 to 3456000, got 3456001.0"),
        ({"retry_after_s": float("nan")}, "retry_after_s must be 0 to 3456000, got nan"),
        ({"retry_after_s": 1, "dead_letter": True}, "a dead-letter message is not retried: give retry_after_s or"),
        ({"done": -1}, "done must be the number of processed messages, got -1"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_value(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(why)):
        Failed(**fields)


def test_a_wait_is_that_of_the_listener_if_it_said_one_also_if_that_is_none_at_all() -> None:
    assert FAILED.wait_s(5.0) == 5.0
    assert Failed(retry_after_s=0).wait_s(5.0) == 0
    assert Failed(retry_after_s=MAX_DELAY_MS / 1000).wait_s(5.0) == MAX_DELAY_MS / 1000
