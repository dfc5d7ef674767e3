"""CONFIG and the allow-list by client IP, on examples."""

from __future__ import annotations

from typing import Any

import pytest

from client.allocate import (
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByClientIp,
    AllocateMessageQueueByConfig,
)
from model.message_queue import MessageQueue

QUEUES = [MessageQueue("t", "b", queue_id) for queue_id in range(4)]
OTHER = MessageQueue("u", "b", 0)


def test_the_configured_list_is_returned_as_it_is_whatever_the_arguments_are() -> None:
    configured = [OTHER, QUEUES[1], QUEUES[1]]
    strategy = AllocateMessageQueueByConfig(configured)
    assert strategy.allocate("g", "", [], []) == configured
    assert strategy.allocate("g", "nobody", QUEUES, ["a"]) == configured
    strategy.allocate("g", "", [], []).clear()
    assert (strategy.name, strategy.allocate("g", "", [], [])) == ("CONFIG", configured)


def test_without_a_list_there_is_nothing() -> None:
    assert AllocateMessageQueueByConfig(None).allocate("g", "a", QUEUES, ["a"]) == []


def test_over_all_topics_only_what_exists_and_is_subscribed_to_is_taken() -> None:
    strategy = AllocateMessageQueueByConfig([QUEUES[3], OTHER, QUEUES[0], QUEUES[3]])
    assert strategy.allocate_group("g", "a", {"t": QUEUES[:2], "u": [OTHER]}, {"a": ["t"], "b": ["u"]}) == [QUEUES[0]]
    assert strategy.allocate_group("g", "a", {"t": QUEUES, "u": [OTHER]}, {"a": ("t", "u")}) == [
        QUEUES[3],
        OTHER,
        QUEUES[0],
    ]


def test_something_else_than_a_queue_cannot_be_configured() -> None:
    with pytest.raises(ValueError, match="holds 't@b:0'"):
        AllocateMessageQueueByConfig(["t@b:0"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="must be a list of MessageQueue, and is 5"):
        AllocateMessageQueueByConfig(5)  # type: ignore[arg-type]


MEMBERS = ["10.0.0.1@a", "10.0.0.1@b", "10.0.0.11@a", "10.0.0.2@a"]


def test_members_on_the_named_machines_share_everything() -> None:
    strategy = AllocateMessageQueueByClientIp(["10.0.0.1"])
    assert [strategy.allocate("g", cid, QUEUES, MEMBERS) for cid in MEMBERS] == [QUEUES[:2], QUEUES[2:], [], []]


def test_the_inner_strategy_decides_and_shows_in_the_name() -> None:
    strategy = AllocateMessageQueueByClientIp({"10.0.0.2", "10.0.0.11"}, AllocateMessageQueueAveragelyByCircle())
    assert strategy.name == "CLIENT_IP-AVG_BY_CIRCLE"
    assert strategy.allocate("g", "10.0.0.2@a", QUEUES, MEMBERS) == [QUEUES[1], QUEUES[3]]


def test_when_no_member_is_allowed_no_one_consumes() -> None:
    assert AllocateMessageQueueByClientIp(["10.9.9.9"]).allocate("g", MEMBERS[0], QUEUES, MEMBERS) == []


def test_the_common_checks_apply_to_those_who_are_not_allowed_too() -> None:
    strategy = AllocateMessageQueueByClientIp(["10.0.0.1"])
    assert strategy.allocate("g", "10.0.0.1@new", QUEUES, MEMBERS) == []
    with pytest.raises(ValueError, match="mq_all is empty"):
        strategy.allocate("g", "10.0.0.2@a", [], MEMBERS)


@pytest.mark.parametrize("ips", ["10.0.0.1", [], None, [7], [""], [["10.0.0.1"]]])
def test_a_list_that_allows_no_one_or_is_none_is_refused(ips: Any) -> None:
    with pytest.raises(ValueError, match="allowed_ips must"):
        AllocateMessageQueueByClientIp(ips)


def test_config_shares_nothing_and_so_cannot_be_asked_inside() -> None:
    with pytest.raises(ValueError, match="use CONFIG alone"):
        AllocateMessageQueueByClientIp(["10.0.0.1"], AllocateMessageQueueByConfig(QUEUES))


def test_an_inner_strategy_has_to_be_one() -> None:
    with pytest.raises(ValueError, match="inner must be"):
        AllocateMessageQueueByClientIp(["10.0.0.1"], "AVG")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"make one, as AllocateMessageQueueAveragelyByCircle\(\)"):
        AllocateMessageQueueByClientIp(["10.0.0.1"], AllocateMessageQueueAveragelyByCircle)  # type: ignore[arg-type]
