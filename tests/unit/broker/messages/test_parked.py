"""Parked requests: each is taken exactly once, by what comes first, and the one that waited longest is first."""

from __future__ import annotations

from typing import Any

import pytest

from broker.messages.parked import ParkedRequest, ParkedRequests, Place
from remoting.command import REQUEST, Command

Table = ParkedRequests[ParkedRequest[str]]

ANY = -1


def park(
    table: Table, connection: str = "a", place: Place = ("t", 0), *more: Place, deadline: float = 15.0
) -> ParkedRequest[str]:
    one = ParkedRequest(connection, Command(REQUEST, 11, 1, {}, None), (place, *more), deadline)
    table.park(one)
    return one


def of_any(group: str = "g", topic: str = "t") -> Place:
    return topic, (group, ANY)


def test_the_requests_at_a_place_are_taken_oldest_first() -> None:
    table = Table()
    first, _, third = park(table, "a"), park(table, "a", ("t", 1)), park(table, "b")
    assert table.remove_place("t", 0) == [first, third]
    assert (table.remove_place("t", 0), table.remove_place("u", 0), len(table)) == ([], [], 1)


def test_a_request_is_taken_at_its_time_and_not_before() -> None:
    table = Table()
    late, early = park(table, deadline=9.0), park(table, deadline=3.0)
    assert (table.next_deadline(), table.expire(2.9)) == (3.0, [])
    assert table.expire(3.0) == [early]
    assert table.next_deadline() == 9.0
    assert table.expire(100.0) == [late]
    assert table.next_deadline() is None


def test_the_requests_of_a_connection_that_is_gone_are_taken_from_every_place() -> None:
    table = Table()
    own, other = [park(table, "a"), park(table, "a", ("u", 5))], park(table, "b")
    assert table.of_connection("a") == own
    table.remove_connection("a")
    table.remove_connection("nobody")
    assert table.remove_place("t", 0) == [other]
    assert (table.of_connection("a"), table.remove_place("u", 5), len(table)) == ([], [], 0)


def test_a_request_that_was_answered_does_not_wake_anyone_at_its_time() -> None:
    table = Table()
    park(table, deadline=3.0)
    table.remove_place("t", 0)
    assert (table.next_deadline(), table.expire(3.0)) == (None, [])


def test_equal_deadlines_are_answered_in_the_order_of_asking() -> None:
    table = Table()
    requests = [park(table, str(number)) for number in range(5)]
    assert table.expire(15.0) == requests


@pytest.mark.parametrize(("max_parked", "max_per_place", "n_all"), [(3, 9, 3), (9, 2, 3)])
def test_the_limit_is_taken_and_one_more_is_refused(max_parked: int, max_per_place: int, n_all: int) -> None:
    table = Table(max_parked=max_parked, max_per_place=max_per_place)
    park(table, "a", ("u", 0))
    for connection in ("a", "b"):
        assert table.full_at("t", 0) == ""
        park(table, connection)
    assert f"2 requests are held at this queue and {n_all} on this broker" in table.full_at("t", 0)
    assert (table.full_at("u", 0) == "") == (max_parked > 3)
    assert len(table.remove_place("t", 0)) == 2
    assert table.full_at("t", 0) == ""


@pytest.mark.parametrize("places", [[("t", 0)], [of_any(), of_any(topic="%RETRY%g")]])
def test_requests_that_are_answered_long_before_their_time_do_not_pile_up(places: list[Any]) -> None:
    table = Table()
    kept = park(table, "a", ("u", 0), deadline=1e6)
    for _ in range(10_000):
        table.remove_requests([park(table, "a", *places)])
    assert len(table._deadlines) < 100
    assert table.next_deadline() == 1e6
    assert table.expire(1e6) == [kept]


# --- at several places -----------------------------------------------------------------------------------------------
def test_the_request_that_has_waited_longest_at_any_of_several_places_is_first() -> None:
    table = Table()
    any_queue, of_one = park(table, "a", of_any()), park(table, "a", ("t", ("g", 1)))
    park(table, "a", of_any("h"))
    assert list(table.keys("t")) == [("g", ANY), ("g", 1), ("h", ANY)]
    assert table.first("t", ("g", 1), ("g", ANY)) is any_queue
    table.remove_requests([any_queue])
    assert table.first("t", ("g", 1), ("g", ANY)) is of_one
    assert table.first("t", ("g", 0), ("g", ANY)) is None


def test_one_at_two_places_is_found_at_both_and_taken_from_both() -> None:
    table = Table()
    one = park(table, "a", of_any(), of_any(topic="%RETRY%g"))
    assert table.first("%RETRY%g", ("g", 0), ("g", ANY)) is one
    assert table.first("t", ("g", ANY)) is one
    table.remove_requests([one])
    assert (len(table), list(table.keys("t")), list(table.keys("%RETRY%g"))) == (0, [], [])
    assert table.first("t", ("g", ANY)) is None


def test_a_topic_knows_its_requests_whichever_places_they_wait_at() -> None:
    table = Table()
    both, one = park(table, "a", ("t", ("g", 1)), of_any("g", "u")), park(table, "b", of_any("h"))
    assert table.of_topic("t") == [both, one]
    assert (table.of_topic("u"), table.of_topic("v")) == ([both], [])
