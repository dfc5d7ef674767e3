"""BALANCED_STICKY on examples; its laws and its twins are in tests/property/test_balanced_sticky_laws.py."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from client.allocate import AllocateMessageQueueBalancedSticky
from model.message_queue import MessageQueue

MEMBERS = [f"10.0.0.{number}@app" for number in range(7)]


def queues(topic: str, count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, queue_id) for queue_id in range(count)]


def test_remainders_of_many_topics_do_not_go_to_the_same_member() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    queues_of = {f"t{number}": queues(f"t{number}", 3) for number in range(9)}
    topics_of = {cid: tuple(queues_of) for cid in MEMBERS}
    shares = [strategy.allocate_group("g", cid, queues_of, topics_of) for cid in MEMBERS]
    assert sorted(map(len, shares)) == [3, 4, 4, 4, 4, 4, 4]
    assert sorted(queue for share in shares for queue in share) == sorted(
        queue for seen in queues_of.values() for queue in seen
    )


def test_one_topic_is_shared_like_a_group_that_has_only_that() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    seen = queues("t", 20)
    for cid in MEMBERS:
        share = strategy.allocate("g", cid, seen, MEMBERS)
        assert share == sorted(share)
        assert share == strategy.allocate_group("g", cid, {"t": seen}, dict.fromkeys(MEMBERS, ("t",)))


def test_what_an_instance_saw_before_changes_nothing() -> None:
    used = AllocateMessageQueueBalancedSticky()
    for members in (MEMBERS, MEMBERS[:4], MEMBERS[2:], [f"x{number}" for number in range(60)], MEMBERS):
        for count in (5, 50, 20):
            seen = queues("t", count)
            fresh = AllocateMessageQueueBalancedSticky()
            assert used.allocate("g", members[0], seen, members) == fresh.allocate("g", members[0], seen, members)


def test_a_queue_or_a_member_that_is_listed_twice_counts_once() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    seen = queues("t", 5)
    twice = [strategy.allocate("g", cid, seen * 2, MEMBERS[:2] * 2) for cid in MEMBERS[:2]]
    assert twice == [strategy.allocate("g", cid, seen, MEMBERS[:2]) for cid in MEMBERS[:2]]


def test_a_rolled_out_topic_goes_to_those_who_have_it_and_the_others_make_up_for_it() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    queues_of = {"old": queues("old", 10), "new": queues("new", 4)}
    topics_of = {cid: ("new", "old") if cid in MEMBERS[:2] else ("old",) for cid in MEMBERS}
    shares = {cid: strategy.allocate_group("g", cid, queues_of, topics_of) for cid in MEMBERS}
    assert {len(share) for share in shares.values()} == {2}
    assert {queue.topic for cid in MEMBERS[2:] for queue in shares[cid]} == {"old"}


def test_a_topic_without_queues_makes_no_difference_between_members() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    queues_of = {"t": queues("t", 9), "empty": []}
    plain = {cid: ("t",) for cid in MEMBERS}
    mixed = {cid: ("t", "empty", "unknown") if cid in MEMBERS[:3] else ("t",) for cid in MEMBERS}
    for cid in MEMBERS:
        assert strategy.allocate_group("g", cid, queues_of, mixed) == strategy.allocate_group(
            "g", cid, queues_of, plain
        )


def test_strangers_and_members_without_queues_get_nothing() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    assert strategy.allocate("g", "stranger", queues("t", 3), MEMBERS) == []
    assert strategy.allocate_group("g", "stranger", {"t": queues("t", 3)}, {"a": ["t"]}) == []
    assert strategy.allocate_group("g", "a", {"t": queues("t", 3)}, {"a": ["u"], "b": ["t"]}) == []
    assert strategy.allocate_group("g", "a", {}, {"a": ["t"]}) == []


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of Python a call takes: a measure of work that does not depend on the machine."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def work_of_one_leaving(queues_of: dict[str, list[MessageQueue]], topics_of: dict[str, tuple[str, ...]]) -> int:
    strategy = AllocateMessageQueueBalancedSticky()
    stay = [*topics_of][:-1]
    strategy.allocate_group("g", stay[0], queues_of, topics_of)
    after = {cid: topics_of[cid] for cid in stay}
    return lines_run(lambda: strategy.allocate_group("g", stay[0], queues_of, after))


def test_when_one_member_leaves_two_kinds_are_little_more_work_than_one() -> None:
    queues_of = {f"t{number}": queues(f"t{number}", 100) for number in range(5)}
    names = tuple(queues_of)
    members = [f"10.0.0.{number}@app" for number in range(100)]
    one = work_of_one_leaving(queues_of, dict.fromkeys(members, names))
    two = work_of_one_leaving(queues_of, {cid: names[: 5 - n % 2] for n, cid in enumerate(members)})
    assert two < 2 * one


def test_when_every_member_has_topics_of_its_own_the_work_is_in_proportion_to_them() -> None:
    rng = random.Random(1)
    work = []
    for size in (20, 40):
        queues_of = {f"t{number}": queues(f"t{number}", 10) for number in range(size)}
        topics_of = {f"10.0.0.{number}@app": tuple(rng.sample(sorted(queues_of), 5)) for number in range(2 * size)}
        work.append(work_of_one_leaving(queues_of, topics_of))
    assert work[1] < 3 * work[0]
    assert work[1] < 200 * 5 * 80  # lines for each subscription


def test_the_shares_of_all_other_members_are_there_when_one_is() -> None:
    strategy = AllocateMessageQueueBalancedSticky()
    queues_of = {"t": queues("t", 300), "u": queues("u", 300)}
    topics_of = {cid: ("t", "u")[: 1 + n % 2] for n, cid in enumerate(MEMBERS)}
    for cid in MEMBERS[:2]:  # one of each kind
        strategy.allocate_group("g", cid, queues_of, topics_of)
    for cid in MEMBERS:
        assert lines_run(partial(strategy.allocate_group, "g", cid, queues_of, topics_of)) < 100


def test_the_common_checks_apply() -> None:
    with pytest.raises(ValueError, match="cid_all is empty"):
        AllocateMessageQueueBalancedSticky().allocate("g", "a", queues("t", 1), [])
