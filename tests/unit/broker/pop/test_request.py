"""The header of a pop, read."""

from __future__ import annotations

from typing import Any

import pytest

from broker.pop.request import read_pop
from model.limits import MAX_ATTEMPTS

HEADER: dict[str, Any] = {
    "group": "g",
    "topic": "t",
    "queue_id": -1,
    "client_id": "c",
    "max_n": 32,
    "invisible_ms": 1500,
    "suspend_ms": 0,
}


def test_what_is_not_said_has_its_default() -> None:
    pop = read_pop(HEADER)
    assert (pop.invisible_s, pop.max_attempts, pop.order, pop.tag_hashes) == (1.5, MAX_ATTEMPTS, False, None)
    assert (pop.consume_from, pop.consume_timestamp_ms) == (None, 0)


@pytest.mark.parametrize(
    ("fields", "retry_topic"),
    [
        ({}, "%RETRY%g"),
        ({"retry": False}, None),
        ({"order": True}, None),
        ({"queue_id": 0}, None),
        ({"queue_id": 0, "retry": True}, "%RETRY%g"),
        ({"topic": "%RETRY%g"}, None),
    ],
)
def test_the_retry_topic_is_wanted_with_any_queue_in_any_order_or_when_it_is_said(
    fields: dict[str, Any], retry_topic: str | None
) -> None:
    assert read_pop({**HEADER, **fields}).retry_topic == retry_topic
