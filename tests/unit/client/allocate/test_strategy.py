"""What all strategies have in common: checks, and the order of names."""

from __future__ import annotations

import pytest

from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueBalancedSticky
from client.allocate.strategy import AssignedByBroker, check_strategy, is_group_wide, position_of, utf16_units
from model.assignment import BROKER_STRATEGY
from model.message_queue import MessageQueue

QUEUES = [MessageQueue("t", "b", 0)]


def test_a_member_is_found_at_its_first_position() -> None:
    assert position_of("g", "b", QUEUES, ["a", "b", "b"]) == 1
    assert position_of("g", "z", QUEUES, ["a"]) is None


@pytest.mark.parametrize(
    ("cid", "queues", "members", "what"),
    [("", [], [], "current_cid"), ("a", [], [], "mq_all"), ("a", QUEUES, [], "cid_all")],
)
def test_the_first_empty_argument_is_named(cid: str, queues: list[MessageQueue], members: list[str], what: str) -> None:
    with pytest.raises(ValueError, match=f"{what} is empty"):
        position_of("g", cid, queues, members)


@pytest.mark.parametrize("wrong", [None, "AVG", AllocateMessageQueueAveragely.allocate])
def test_something_that_is_not_a_strategy_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="inner must be an allocation strategy"):
        check_strategy("inner", wrong)
    check_strategy("inner", AllocateMessageQueueAveragely())


def test_names_sort_as_java_sorts_them() -> None:
    # U+1F600 is two code units that begin with D83D, below U+FF5E; by code point it comes last.
    assert sorted(["～", "😀", "a"], key=utf16_units) == ["a", "😀", "～"]
    assert sorted(["～", "😀", "a"]) == ["a", "～", "😀"]
    assert utf16_units("\ud83d") < utf16_units("😀")


def test_only_a_strategy_that_sees_all_topics_is_asked_for_the_group() -> None:
    assert is_group_wide(AllocateMessageQueueBalancedSticky())
    assert not is_group_wide(AllocateMessageQueueAveragely())


def test_the_strategy_of_brokers_has_a_name_for_heartbeats_and_is_asked_by_no_one() -> None:
    strategy = AssignedByBroker()
    assert strategy.name == BROKER_STRATEGY
    with pytest.raises(AssertionError, match="by a broker"):
        strategy.allocate("g", "c", [], ["c"])
    with pytest.raises(AssertionError, match="by a broker"):
        strategy.allocate_group("g", "c", {}, {"c": ["t"]})
    assert is_group_wide(strategy)
