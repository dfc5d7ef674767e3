"""The ring on which queues walk to members with room: the worked example, and where queues and members are."""

from __future__ import annotations

import itertools

import numpy as np

from client.allocate.hash_ring import (
    POINTS,
    Positions,
    Ring,
    ascending,
    deal,
    deal_evenly,
    next_points,
    order_by_position,
    points_of,
    positions_of,
    ring_of,
)
from model.message_queue import MessageQueue

A, B = 0, 1
RING = Ring(np.array([10, 30, 50]), np.array([A, B, A]))


def at(*positions: int) -> Positions:
    return order_by_position(np.array(positions))


def dealt(positions: Positions, rooms: list[int], extra: int = 0) -> list[int]:
    return list(deal(positions, RING, np.array(rooms), extra))


def test_a_queue_goes_to_the_next_point_when_there_is_room() -> None:
    assert dealt(at(5, 20, 29, 45), [2, 2]) == [A, B, B, A]


def test_the_farthest_of_too_many_walks_on() -> None:
    assert dealt(at(20, 25, 29, 45), [2, 2]) == [A, B, B, A]


def test_of_two_that_come_as_far_the_first_on_the_ring_is_taken() -> None:
    ring = Ring(np.array([10, 20, 30]), np.array([A, A, B]))
    assert list(deal(at(15, 5), ring, np.array([1, 1]))) == [B, A]


def test_who_has_no_room_gets_nothing() -> None:
    assert dealt(at(5, 20, 29, 45), [0, 4]) == [B, B, B, B]


def test_points_that_were_found_before_change_nothing() -> None:
    queues = at(20, 25, 29, 45)
    assert list(deal(queues, RING, np.array([2, 2]), nearest=next_points(queues, RING))) == [A, B, B, A]


def test_behind_the_last_point_comes_the_first_and_the_way_around_counts() -> None:
    assert dealt(at(51, 9), [1, 1]) == [B, A]


def test_who_finds_a_queue_first_has_one_more() -> None:
    assert dealt(at(5, 28, 29), [1, 1], 1) == [A, B, B]
    assert list(deal_evenly(at(5, 28, 29), RING, 2)) == [A, B, B]


def test_with_fewer_queues_than_members_each_of_some_has_one() -> None:
    assert sorted(deal_evenly(at(28, 29), RING, 2)) == [A, B]


def test_rooms_are_the_callers_and_stay_as_they_are() -> None:
    rooms = np.array([2, 2])
    deal(at(5, 20, 29, 45), RING, rooms)
    assert list(rooms) == [2, 2]


def test_queues_of_one_broker_lie_apart_and_a_new_one_moves_none() -> None:
    queues = [MessageQueue("t", "b", queue_id) for queue_id in range(64)]
    before, after = positions_of(queues[:40]).tolist(), positions_of(queues).tolist()
    assert after[:40] == before
    gaps = [b - a for a, b in itertools.pairwise(sorted(after))]
    assert max(gaps) < 3 * min(gaps)
    assert list(order_by_position(positions_of(queues)).order) == sorted(range(64), key=after.__getitem__)


def test_a_queue_lies_where_it_lies_alone_however_many_queues_its_brokers_have() -> None:
    counts = {("t", "a"): 3, ("t", "b"): 3, ("t", "c"): 1, ("u", "a"): 5, ("u", "b"): 5, ("v", "a"): 4, ("v", "aa"): 1}
    queues = [MessageQueue(*pair, 2 * number) for pair, count in counts.items() for number in range(count)]
    assert queues == sorted(queues)
    for first in range(len(queues)):
        assert positions_of(queues[first:]).tolist() == [positions_of([queue])[0] for queue in queues[first:]]


def test_each_member_has_its_points_in_order_of_the_ring() -> None:
    ring = ring_of(points_of(["a", "b", "c"]))
    assert list(ring.points) == sorted(ring.points)
    assert np.bincount(ring.owners).tolist() == [POINTS] * 3
    assert {int(point) for point, owner in zip(*ring, strict=True) if owner == 1} == set(points_of(["b"])[0].tolist())


def test_points_that_meet_come_in_order_of_their_members() -> None:
    twins = ring_of(points_of(["a", "a"]))
    assert twins.owners.tolist() == [0, 1] * POINTS


def test_equal_values_stay_in_their_order() -> None:
    assert ascending(np.array([3, 1, 3, 0, 1, (1 << 32) - 1])).tolist() == [3, 1, 4, 0, 2, 5]
