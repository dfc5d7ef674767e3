"""The allocation strategies on examples that can be checked by eye; their laws are in tests/property."""

from __future__ import annotations

import pytest

from client.allocate import (
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueStrategy,
)
from model.message_queue import MessageQueue

AVG = AllocateMessageQueueAveragely()
CIRCLE = AllocateMessageQueueAveragelyByCircle()
QUEUES = [MessageQueue("topic", broker, queue_id) for broker in "abc" for queue_id in range(3)]
MEMBERS = ["192.168.0.6@15956", "192.168.0.7@15957", "192.168.0.8@15958", "192.168.0.9@15959"]
BOTH = pytest.mark.parametrize("strategy", [AVG, CIRCLE], ids=lambda strategy: str(strategy.name))


def shares(strategy: AllocateMessageQueueStrategy, queues: list[MessageQueue], members: list[str]) -> list[str]:
    """Each member's share, as text like `a0 a1`."""
    return [
        " ".join(f"{queue.broker_name}{queue.queue_id}" for queue in strategy.allocate("group", cid, queues, members))
        for cid in members
    ]


def test_averagely_gives_the_shares_of_the_articles_worked_example() -> None:
    assert shares(AVG, QUEUES, MEMBERS) == ["a0 a1 a2", "b0 b1", "b2 c0", "c1 c2"]


def test_by_circle_deals_the_queues_of_the_worked_example_out_in_turn() -> None:
    assert shares(CIRCLE, QUEUES, MEMBERS) == ["a0 b1 c2", "a1 b2", "a2 c0", "b0 c1"]


@BOTH
def test_with_fewer_queues_than_members_the_first_members_get_one_each(strategy: AllocateMessageQueueStrategy) -> None:
    assert shares(strategy, QUEUES[:2], MEMBERS) == ["a0", "a1", "", ""]


@BOTH
def test_with_as_many_queues_as_members_each_gets_one(strategy: AllocateMessageQueueStrategy) -> None:
    assert shares(strategy, QUEUES[:4], MEMBERS) == ["a0", "a1", "a2", "b0"]


@BOTH
def test_a_member_alone_gets_everything(strategy: AllocateMessageQueueStrategy) -> None:
    assert strategy.allocate("group", MEMBERS[0], QUEUES, MEMBERS[:1]) == QUEUES


@BOTH
def test_an_id_that_is_not_a_member_gets_nothing(strategy: AllocateMessageQueueStrategy) -> None:
    assert strategy.allocate("group", "stranger", QUEUES, MEMBERS) == []


@BOTH
def test_an_id_that_is_listed_twice_counts_at_its_first_position(strategy: AllocateMessageQueueStrategy) -> None:
    # As in RocketMQ: the second slot is owned by nobody. Brokers list every id once, so that this does not happen.
    assert shares(strategy, QUEUES[:3], ["x", "x", "y"]) == ["a0", "a0", "a2"]


@BOTH
@pytest.mark.parametrize(
    ("cid", "queues", "members", "what"),
    [
        ("", QUEUES, MEMBERS, "current_cid"),
        ("x", [], MEMBERS, "mq_all"),
        ("x", QUEUES, [], "cid_all"),
        ("", [], [], "current_cid"),
    ],
)
def test_an_empty_argument_is_illegal_and_named(
    strategy: AllocateMessageQueueStrategy, cid: str, queues: list[MessageQueue], members: list[str], what: str
) -> None:
    with pytest.raises(ValueError, match=f"{what} is empty: group 'group'"):
        strategy.allocate("group", cid, queues, members)


def test_the_names_are_those_that_travel_in_heartbeats() -> None:
    assert (AVG.name, CIRCLE.name) == ("AVG", "AVG_BY_CIRCLE")


@BOTH
def test_the_share_is_a_list_of_its_own(strategy: AllocateMessageQueueStrategy) -> None:
    queues = list(QUEUES)
    strategy.allocate("group", "only", queues, ["only"]).clear()
    assert queues == QUEUES
