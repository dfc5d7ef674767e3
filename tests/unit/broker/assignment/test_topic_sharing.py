"""Shares of those who pop, compared with RocketMQ's rule as it is written there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.assignment.topic_sharing import queues_to_pop, queues_to_pull
from model.errors import InvalidParameter
from model.message_queue import MessageQueue


def queues(count: int, brokers: int = 2) -> list[MessageQueue]:
    return sorted(MessageQueue("t", f"b{number % brokers}", number // brokers) for number in range(count))


def avg(mq_all: list[MessageQueue], cid_all: list[str], cid: str) -> list[MessageQueue]:
    """AllocateMessageQueueAveragely.allocate, line by line."""
    index, mod = cid_all.index(cid), len(mq_all) % len(cid_all)
    if len(mq_all) <= len(cid_all):
        size = 1
    else:
        size = len(mq_all) // len(cid_all) + 1 if mod > 0 and index < mod else len(mq_all) // len(cid_all)
    start = index * size if mod > 0 and index < mod else index * size + mod
    return [mq_all[(start + i) % len(mq_all)] for i in range(min(size, len(mq_all) - start))]


def allocate4pop(cid: str, mq_all: list[MessageQueue], cid_all: list[str], share: int) -> list[MessageQueue]:
    """QueryAssignmentProcessor.allocate4Pop, line by line; its caller puts the result into a set."""
    if share <= 0 or share >= len(cid_all) - 1:
        return [MessageQueue(mq.topic, mq.broker_name, -1) for mq in mq_all]
    if len(cid_all) <= len(mq_all):
        result = avg(mq_all, cid_all, cid)
        index = cid_all.index(cid)
        for _ in range(1, share + 1):
            index = (index + 1) % len(cid_all)
            result = result + avg(mq_all, cid_all, cid_all[index])
        return result
    return [mq_all[cid_all.index(cid) % len(mq_all)]]


@given(st.integers(1, 20), st.integers(1, 12), st.integers(-2, 12), st.data())
def test_a_share_is_what_rocketmq_gives(count: int, size: int, share: int, data: st.DataObject) -> None:
    members = [f"c{number:02}" for number in range(size)]
    cid = data.draw(st.sampled_from(members))
    wanted = allocate4pop(cid, queues(count), members, share)
    assert queues_to_pop(cid, queues(count), members, share) == list(dict.fromkeys(wanted))


@pytest.mark.parametrize(
    ("share", "of_d"),
    [(1, [("b1", 1), ("b0", 0)]), (2, [("b1", 1), ("b0", 0), ("b0", 1)]), (3, [("b0", -1), ("b1", -1)])],
)
def test_shares_go_round_in_a_circle(share: int, of_d: list[tuple[str, int]]) -> None:
    got = queues_to_pop("D", queues(4), ["A", "B", "C", "D"], share)
    assert [(queue.broker_name, queue.queue_id) for queue in got] == of_d


def test_no_one_gets_anything_of_a_topic_without_queues() -> None:
    assert queues_to_pop("A", [], ["A", "B", "C", "D"], 1) == queues_to_pop("A", [], ["A"], -1) == []


@given(st.integers(0, 20), st.integers(1, 12), st.sampled_from(["AVG", "AVG_BY_CIRCLE"]))
def test_members_that_pull_have_the_shares_that_rocketmq_gives(count: int, size: int, strategy: str) -> None:
    members, every = [f"c{number:02}" for number in range(size)], queues(count)
    for index, cid in enumerate(members):
        # AllocateMessageQueueAveragelyByCircle.allocate.
        circle = [queue for number, queue in enumerate(every) if number % size == index]
        wanted = circle if strategy == "AVG_BY_CIRCLE" else avg(every, members, cid)
        assert list(queues_to_pull(cid, every, members, strategy)) == wanted
    assert queues_to_pull("stranger", every, members, strategy) == []


def test_a_strategy_that_only_members_compute_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="AVG_BY_CIRCLE, not by 'CONSISTENT_HASH'"):
        queues_to_pull("A", queues(2), ["A"], "CONSISTENT_HASH")
