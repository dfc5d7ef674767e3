"""Assignments of a whole group: as even as can be, with as few moves as that takes; compared with trying everything."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.assignment.sharing import assign, count_moves
from model.message_queue import MessageQueue

Owners = dict[MessageQueue, str]
TOPICS, MEMBERS = ("t", "u", "v"), ("A", "B", "C", "D")


def queues(topic: str, count: int) -> list[MessageQueue]:
    return [MessageQueue(topic, f"b{number % 2}", number // 2) for number in range(count)]


def loads(owners: Owners) -> list[int]:
    return sorted(Counter(owners.values()).values())


def verdict(previous: Owners, owners: Owners, topics_of: dict[str, list[str]]) -> tuple[int, int]:
    """(how uneven it is, how many queues members lost that they could have kept)."""
    counts = Counter(owners.values())
    lost = [
        queue
        for queue, owner in owners.items()
        if queue.topic in topics_of.get(previous.get(queue, ""), ()) and previous[queue] != owner
    ]
    return sum(count * count for count in counts.values()), len(lost)


@st.composite
def groups(draw: st.DrawFn) -> tuple[Owners, dict[str, list[MessageQueue]], dict[str, list[str]]]:
    members = MEMBERS[: draw(st.integers(1, 4))]
    topics_of = {member: draw(st.lists(st.sampled_from(TOPICS), unique=True)) for member in members}
    queues_of = {topic: queues(topic, draw(st.integers(0, 2))) for topic in TOPICS}
    of_any = [queue for of_topic in queues_of.values() for queue in of_topic]
    previous = {queue: draw(st.sampled_from([*MEMBERS, "gone"])) for queue in of_any if draw(st.booleans())}
    return previous, queues_of, topics_of


@settings(max_examples=400, deadline=None)
@given(groups())
def test_no_other_sharing_is_more_even_or_as_even_with_fewer_moves(
    group: tuple[Owners, dict[str, list[MessageQueue]], dict[str, list[str]]],
) -> None:
    previous, queues_of, topics_of = group
    owners = assign(previous, queues_of, topics_of)
    wanted = sorted({topic for topics in topics_of.values() for topic in topics})
    shared = [queue for topic in wanted for queue in queues_of[topic]]
    assert sorted(owners) == sorted(shared) == list(owners)
    takers = [[member for member, topics in topics_of.items() if queue.topic in topics] for queue in shared]
    assert all(owners[queue] in may for queue, may in zip(shared, takers, strict=True))
    every = (dict(zip(shared, choice, strict=True)) for choice in product(*takers))
    best = min(verdict(previous, each, topics_of) for each in every)
    assert verdict(previous, owners, topics_of) == best


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(1, 30), st.integers(1, 8))
def test_a_group_of_equals_that_comes_and_goes_is_always_even_and_moves_the_least(
    changes: list[int], count: int, members: int
) -> None:
    owners: Owners = {}
    for change in changes:
        members = max(1, members + change)
        topics_of = {f"c{number}": ["t", "u"] for number in range(members)}
        queues_of = {"t": queues("t", count), "u": queues("u", 3)}
        before = Counter(owner for owner in owners.values() if owner in topics_of)
        least, more = divmod(count + 3, members)
        by_load = sorted((before[member] for member in topics_of), reverse=True)
        kept = sum(min(load, least + (rank < more)) for rank, load in enumerate(by_load))
        after = assign(owners, queues_of, topics_of)
        assert count_moves(owners, after) == len(owners) - kept
        assert max(loads(after)) <= least + (more > 0)
        owners = after


def test_nothing_moves_when_nothing_changed() -> None:
    topics_of = {"A": ["t"], "B": ["t", "u"], "C": ["u"]}
    queues_of = {"t": queues("t", 7), "u": queues("u", 4)}
    owners = assign({}, queues_of, topics_of)
    assert assign(owners, queues_of, topics_of) == owners


def test_who_joins_takes_only_what_makes_loads_even() -> None:
    queues_of = {"t": queues("t", 4)}
    one = assign({}, queues_of, {"A": ["t"]})
    two = assign(one, queues_of, {"A": ["t"], "B": ["t"]})
    three = assign(two, queues_of, {"A": ["t"], "B": ["t"], "C": ["t"]})
    assert [
        (loads(owners), moved) for owners, moved in ((two, count_moves(one, two)), (three, count_moves(two, three)))
    ] == [
        ([2, 2], 2),
        ([1, 1, 2], 1),
    ]


def test_a_queue_travels_along_a_chain_when_no_one_shares_a_topic_directly() -> None:
    # A wants t, B wants t and u, C wants u: what A has too much goes to B, and B gives C of the other topic.
    queues_of = {"t": queues("t", 5), "u": queues("u", 1)}
    topics_of = {"A": ["t"], "B": ["t", "u"], "C": ["u"]}
    previous = {**dict.fromkeys(queues_of["t"], "A"), **dict.fromkeys(queues_of["u"], "B")}
    owners = assign(previous, queues_of, topics_of)
    assert (Counter(owners.values()), count_moves(previous, owners)) == ({"A": 3, "B": 2, "C": 1}, 3)


def test_topics_without_queues_or_members_are_left_out() -> None:
    assert assign({}, {"t": []}, {"A": ["t", "u"]}) == {}
    assert assign({}, {"t": queues("t", 2)}, {}) == {}
    assert assign({}, {"t": queues("t", 1), "u": queues("u", 1)}, {"A": ["u"]}) == {MessageQueue("u", "b0", 0): "A"}


def test_members_of_the_same_topics_get_queues_of_many_brokers() -> None:
    spread = [MessageQueue("t", f"b{broker}", number) for broker in range(2) for number in range(4)]
    alone = assign({}, {"t": spread}, {"A": ["t"]})
    for previous in ({}, alone):
        owners = assign(previous, {"t": spread}, {"A": ["t"], "B": ["t"]})
        assert {(queue.broker_name, owner) for queue, owner in owners.items()} == set(product(("b0", "b1"), "AB"))
