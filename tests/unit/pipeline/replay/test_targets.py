"""MemberTargets are those that clients compute, also where they are computed with arrays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_named
from client.rebalance.plan import allocate_target
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue
from pipeline.replay.targets import MemberTargets

ROUTES = {
    topic: tuple(MessageQueue(topic, broker, n) for broker, count in counts for n in range(count))
    for topic, counts in {"t": [("a", 4), ("b", 4)], "u": [("a", 1)], "v": [("a", 2), ("b", 3)]}.items()
}
MEMBERS = st.dictionaries(
    st.sampled_from([f"10.0.0.{n}@{n}" for n in range(7)]),
    st.sets(st.sampled_from(["t", "u", "v", "none"]), min_size=1).map(lambda topics: tuple(sorted(topics))),
    min_size=1,
).map(lambda members: dict(sorted(members.items())))


@pytest.mark.walk
@given(MEMBERS, st.sampled_from(sorted(BUILT_IN_STRATEGIES)))
def test_targets_are_those_of_the_shipped_code(members: dict[str, tuple[str, ...]], strategy: str) -> None:
    shares = MemberTargets("g", strategy)
    for client, topics in members.items():
        route = tuple((topic, ROUTES[topic]) for topic in topics if topic in ROUTES)
        view = GroupView(group="g", version=1, members=members)
        of_members = strategy_named(strategy)
        expected = allocate_target(of_members, "g", client, MessageModel.CLUSTERING, topics, ROUTES, view)
        assert shares.target(client, shares.number_of(members), members, route, ROUTES) == frozenset(expected)


@given(MEMBERS, MEMBERS)
def test_equal_member_lists_have_one_number_and_others_have_another(
    first: dict[str, tuple[str, ...]], second: dict[str, tuple[str, ...]]
) -> None:
    shares = MemberTargets("g", "AVG")
    assert shares.number_of(dict(first)) == shares.number_of(first)
    assert (shares.number_of(first) == shares.number_of(second)) is (first == second)


def test_a_target_over_all_topics_follows_a_route_of_others_that_changes_while_the_members_stay() -> None:
    members = {"a": ("t",), "b": ("t", "u")}
    shares = MemberTargets("g", "BALANCED_STICKY")
    view = shares.number_of(members)
    one, many = ({"u": tuple(MessageQueue("u", "a", n) for n in range(count))} for count in (1, 8))

    def load(others: dict[str, tuple[MessageQueue, ...]]) -> int:
        return len(shares.target("a", view, members, (("t", ROUTES["t"]),), others))

    assert (load(one), load(many), load(one)) == (4, 8, 4), "b has the queues of u"
