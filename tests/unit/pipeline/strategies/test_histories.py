"""All strategies replay the same histories, and the replay assigns queues as the strategies of clients do."""

from __future__ import annotations

import itertools

import pytest

from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueBalancedSticky
from client.allocate.registry import BUILT_IN_STRATEGIES
from examples.pages.strategies_table import loads_of, owners_of
from model.message_queue import MessageQueue
from pipeline.strategies.allocate_all import QueueSet
from pipeline.strategies.histories import live_through, memberships

QUEUES = QueueSet("t", ("a", "b"), 25)


def test_a_history_depends_on_its_seed_alone_and_changes_by_one_member_at_a_time() -> None:
    first, again, other = (list(memberships(12, 40, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(first) == 41
    for before, after in itertools.pairwise(first):
        assert len(set(before) ^ set(after)) == 1
        assert after == sorted(set(after))
        assert 9 <= len(after) <= 16


@pytest.mark.parametrize("members", [1, 2, 3])
def test_a_small_group_never_loses_its_last_member(members: int) -> None:
    assert all(len(present) >= 1 for present in memberships(members, 60, 3))


@pytest.mark.parametrize(
    "shipped", [AllocateMessageQueueAveragely(), AllocateMessageQueueBalancedSticky()], ids=lambda each: each.name
)
def test_moves_and_spread_are_those_of_the_shipped_strategy(
    shipped: AllocateMessageQueueAveragely | AllocateMessageQueueBalancedSticky,
) -> None:
    every = [MessageQueue("t", broker, n) for broker in QUEUES.brokers for n in range(QUEUES.per_broker)]
    history = list(memberships(7, 15, 4))
    owners = [owners_of(shipped, every, members) for members in history]
    sizes = [len(members) for members in history]
    found = list(live_through(shipped.name, QUEUES, 7, 15, 4))
    for event, before, after, members in zip(found, owners, owners[1:], history[1:], strict=False):
        loads = loads_of(after, members).values()
        assert event.members == len(members)
        assert event.moved == sum(before[queue] != after[queue] for queue in every)
        assert event.spread == max(loads) - min(loads)
        assert event.jain == pytest.approx(sum(loads) ** 2 / (len(members) * sum(load**2 for load in loads)))
    assert [event.least for event in found] == [50 // max(pair) for pair in itertools.pairwise(sizes)]


@pytest.mark.walk
@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
def test_even_strategies_are_even_and_the_others_move_no_less_than_nothing(name: str) -> None:
    for event in live_through(name, QUEUES, 9, 10, 5):
        assert event.moved >= 0
        if BUILT_IN_STRATEGIES[name].even:
            assert event.spread <= 1
            assert event.moved >= event.least
