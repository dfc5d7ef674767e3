"""MessageQueue: order, identity and text."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from model.errors import InvalidParameter
from model.message_queue import MessageQueue, check_queue, check_queues


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    ordered = [
        MessageQueue("a", "x", 2),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "y", 0),
        MessageQueue("b", "w", 0),
    ]
    shuffled = ordered[:]
    random.Random(5).shuffle(shuffled)
    assert sorted(shuffled) == ordered


def test_equal_queues_are_one_key() -> None:
    assert {MessageQueue("t", "b", 1): "found"}[MessageQueue("t", "b", 1)] == "found"
    assert MessageQueue("t", "b", 1) != MessageQueue("t", "b", 2)


def test_a_queue_prints_short_for_tables_and_logs() -> None:
    assert (
        str(MessageQueue("orders", "broker-a", 3)) == f"{MessageQueue('orders', 'broker-a', 3)}" == "orders@broker-a:3"
    )


@pytest.mark.parametrize("queue", [None, "t@broker-a:0", ("t", "broker-a", 0), []])
def test_what_only_looks_like_a_queue_is_refused_with_how_to_write_one(queue: Any) -> None:
    assert check_queue(MessageQueue("t", "broker-a", 0)) == ("t", "broker-a", 0)
    with pytest.raises(InvalidParameter, match=r"got .*: write MessageQueue\(topic, broker_name, queue_id\)"):
        check_queue(queue)


def test_queues_that_users_name_are_several() -> None:
    queue = MessageQueue("t", "broker-a", 0)
    assert check_queues(iter([queue])) == [queue]
    for wrong in (None, "t", queue, [queue, "t"]):
        with pytest.raises(InvalidParameter):
            check_queues(cast("Any", wrong))
