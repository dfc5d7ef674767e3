"""Each vectorised strategy gives every queue to the member that the shipped one gives it to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.allocate import (
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueBalancedSticky,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from model.message_queue import MessageQueue
from pipeline.strategies.allocate_all import STRATEGIES, AllocateAll, QueueSet

SHIPPED: dict[str, AllocateMessageQueueStrategy] = {
    "AVG": AllocateMessageQueueAveragely(),
    "AVG_BY_CIRCLE": AllocateMessageQueueAveragelyByCircle(),
    "CONSISTENT_HASH": AllocateMessageQueueConsistentHash(),
    "BALANCED_STICKY": AllocateMessageQueueBalancedSticky(),
}

queue_sets = st.builds(
    QueueSet,
    st.sampled_from(["t", "orders", "t-2"]),
    st.lists(st.sampled_from(["a", "b", "broker-1", "broker-10", "z"]), min_size=1, max_size=4, unique=True).map(
        lambda names: tuple(sorted(names))
    ),
    st.integers(1, 40),
)
groups = st.lists(st.text("abcxyz0123456789@#.-", min_size=1, max_size=12), min_size=1, max_size=25, unique=True).map(
    sorted
)


def shipped(name: str, queues: QueueSet, members: list[str]) -> list[str]:
    every = [MessageQueue(queues.topic, broker, n) for broker in queues.brokers for n in range(queues.per_broker)]
    owner = {mq: cid for cid in members for mq in SHIPPED[name].allocate("g", cid, every, members)}
    return [owner[mq] for mq in every]


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=120, deadline=None)
@given(queues=queue_sets, histories=st.lists(groups, min_size=1, max_size=3))
def test_every_queue_goes_to_the_member_that_the_shipped_strategy_gives_it_to(
    name: str, queues: QueueSet, histories: list[list[str]]
) -> None:
    allocate_all = AllocateAll(queues)
    for members in histories:
        owners = STRATEGIES[name](allocate_all, members)
        assert [members[owner] for owner in owners] == shipped(name, queues, members)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_larger_group_is_shared_alike_too(name: str) -> None:
    queues, members = QueueSet("t", ("a", "b", "c"), 333), sorted(f"10.0.0.{n}@{n * 7919}" for n in range(200))
    owners = STRATEGIES[name](AllocateAll(queues), members)
    assert [members[owner] for owner in owners] == shipped(name, queues, members)
