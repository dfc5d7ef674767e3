"""The ring on which queues walk to members with room: the worked example, and that rings can be changed."""

from __future__ import annotations

import itertools

from client.allocate.hash_ring import (
    POINTS,
    Positions,
    Ring,
    changed_ring,
    deal,
    deal_evenly,
    next_points,
    positions_of,
    ring_of,
)
from model.message_queue import MessageQueue

RING = Ring([10, 30, 50], ["A", "B", "A"])


def at(*positions: int) -> Positions:
    return Positions(list(positions), sorted(range(len(positions)), key=positions.__getitem__))


def test_a_queue_goes_to_the_next_point_when_there_is_room() -> None:
    assert deal(at(5, 20, 29, 45), RING, {"A": 2, "B": 2}) == ["A", "B", "B", "A"]


def test_the_farthest_of_too_many_walks_on() -> None:
    assert deal(at(20, 25, 29, 45), RING, {"A": 2, "B": 2}) == ["A", "B", "B", "A"]


def test_few_queues_find_the_points_that_they_would_find_among_many() -> None:
    ring = ring_of([f"m{number}" for number in range(9)])
    queues = positions_of([MessageQueue("t", "b", queue_id) for queue_id in range(300)])
    together = next_points(queues, ring)
    alone = [next_points(Positions(queues.at, [queue]), ring) for queue in queues.order]
    assert together.owners == [owner for each in alone for owner in each.owners]
    assert together.distances == [distance for each in alone for distance in each.distances]


def test_points_that_were_found_before_change_nothing() -> None:
    rooms = {"A": 2, "B": 2}
    assert deal(at(20, 25, 29, 45), RING, rooms, nearest=next_points(at(20, 25, 29, 45), RING)) == ["A", "B", "B", "A"]


def test_behind_the_last_point_comes_the_first_and_the_way_around_counts() -> None:
    assert deal(at(51, 9), RING, {"A": 1, "B": 1}) == ["B", "A"]


def test_who_finds_a_queue_first_has_one_more() -> None:
    assert deal(at(5, 28, 29), RING, {"A": 1, "B": 1}, 1) == ["A", "B", "B"]
    assert deal_evenly(at(5, 28, 29), RING, ["A", "B"]) == ["A", "B", "B"]


def test_with_fewer_queues_than_members_each_of_some_has_one() -> None:
    assert sorted(deal_evenly(at(28, 29), RING, ["A", "B"])) == ["A", "B"]


def test_queues_of_one_broker_lie_apart_and_a_new_one_moves_none() -> None:
    queues = [MessageQueue("t", "b", queue_id) for queue_id in range(64)]
    before, after = positions_of(queues[:40]).at, positions_of(queues).at
    assert after[:40] == before
    ordered = sorted(after)
    gaps = [b - a for a, b in itertools.pairwise(ordered)]
    assert max(gaps) < 3 * min(gaps)
    assert positions_of(queues).order == sorted(range(64), key=after.__getitem__)


def test_each_member_has_its_points_in_order_of_the_ring() -> None:
    ring = ring_of(["a", "b", "c"])
    assert ring.points == sorted(ring.points)
    assert [ring.owners.count(member) for member in "abc"] == [POINTS] * 3


def test_a_changed_ring_is_the_ring_of_those_who_are_there_now() -> None:
    before = [f"m{number:03}" for number in range(40)]
    after = sorted({*before[3:], "new", "m", "z"})
    gone, come = sorted({*before} - {*after}), sorted({*after} - {*before})
    assert changed_ring(ring_of(before), gone, come) == ring_of(after)
    assert changed_ring(ring_of([]), ["a"][:0], ["a"]) == ring_of(["a"])


def test_points_that_meet_come_in_order_of_their_members() -> None:
    # Equal points cannot be made from outside; a ring with two members of one id has nothing but equal ones.
    twins = changed_ring(ring_of(["a"]), [], ["a"])
    assert len(twins.points) == 2 * POINTS
    assert changed_ring(twins, ["a"], []) == ring_of(["a"])
