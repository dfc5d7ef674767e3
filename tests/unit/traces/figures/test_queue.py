from __future__ import annotations

from typing import Any

import pytest

from tests.unit.traces.figures.group_events import E, Story
from traces.figures.trace import compute_figures


def a_death(untold: int) -> Story:
    """c1 told that it dispatched up to 60, and committed 50; then it dies, and c2 goes on there."""
    story = Story()
    first = story.client(0, "c1", E.CLIENT_START)
    story.client(1, "c2", E.CLIENT_START)
    story.queue(2, "c1", E.QUEUE_ACQUIRED, first, version=1, offset=0)
    story.queue(100, "c1", E.MESSAGES_HANDED_OUT, version=1, offset=60, n=60)
    gone = story.tell(200, "b", E.MEMBER_LEAVE, client="c1", broker="b", detail="close")
    story.queue(210, "c1", E.LOCK_EXPIRED, gone, version=1, offset=50, n=untold, detail="close")
    story.queue(220, "c2", E.QUEUE_ACQUIRED, gone, version=2, offset=50)
    return story


@pytest.mark.parametrize(("untold", "most"), [(30, 20), (5, 0), (-1, 0)])
def test_what_a_dead_member_could_not_report_may_have_come_twice_and_counts_once(untold: int, most: int) -> None:
    story = a_death(untold)
    story.queue(300, "c2", E.MESSAGES_HANDED_OUT, version=2, offset=90, n=40)
    [*_, taken] = story.run()[1]
    assert (taken.redelivered, taken.duplicates, taken.possible_duplicates) == (10, 10, most)


def test_only_what_the_new_owner_dispatched_may_have_come_twice() -> None:
    story = a_death(30)
    story.queue(300, "c2", E.MESSAGES_HANDED_OUT, version=2, offset=65, n=15)
    [*_, taken] = story.run()[1]
    assert (taken.duplicates, taken.possible_duplicates) == (10, 5)


def test_of_an_owner_that_dies_as_well_its_broker_says_how_far_it_may_have_come() -> None:
    story = a_death(30)
    story.queue(300, "c2", E.LOCK_EXPIRED, version=2, offset=50, n=25, detail="close")
    [*_, taken] = story.run()[1]
    assert (taken.duplicates, taken.possible_duplicates) == (0, 25)


def test_a_member_that_reports_later_what_it_dispatched_makes_known_what_was_possible() -> None:
    story = a_death(30)
    story.queue(300, "c2", E.MESSAGES_HANDED_OUT, version=2, offset=90, n=40)
    story.queue(400, "c1", E.MESSAGES_HANDED_OUT, version=1, offset=75, n=15)
    story.queue(401, "c1", E.QUEUE_DROPPED, version=1, detail="lost")
    [*_, taken] = story.run()[1]
    assert (taken.duplicates, taken.possible_duplicates) == (25, 5)


def test_a_lease_that_ended_ends_the_time_of_its_owner_whatever_that_believes() -> None:
    story = Story()
    story.queue(10, "c1", E.QUEUE_ACQUIRED, version=1, offset=0)
    story.queue(290, "c2", E.QUEUE_ACQUIRED, version=2, offset=0)
    story.queue(300, "c1", E.LOCK_EXPIRED, version=1, detail="expiry")
    story.queue(305, "c2", E.LOCK_EXPIRED, version=1, detail="expiry")  # an older lease of c2's: not this one
    story.queue(900, "c1", E.QUEUE_DROPPED, version=1, detail="lost")
    story.queue(1000, "c2", E.LOCK_EXPIRED, version=2, detail="close")
    story.queue(1040, "c2", E.LOCK_GRANTED, version=3, offset=0)  # it was away for a moment and goes on
    _, owned, _ = story.run(2_000)
    assert [(row.owner, row.began, row.from_ms, row.to_ms, row.ended) for row in owned] == [
        ("c1", "acquired", 10, 300, "expired"),
        ("c2", "acquired", 290, 1000, "expired"),
        ("c2", "resumed", 1040, 2000, "open"),
    ]
    assert [(row.moved, row.double_ms, row.orphan_ms) for row in owned] == [
        (True, 0, 0),
        (True, 10, 0),
        (False, 0, 40),
    ]


def test_what_is_redelivered_because_an_operator_wants_it_is_not_counted() -> None:
    story = Story()
    story.queue(10, "c1", E.QUEUE_ACQUIRED, version=1, offset=0)
    story.queue(20, "c1", E.MESSAGES_HANDED_OUT, version=1, offset=50, n=50)
    reset = story.queue(29, "c1", E.OFFSET_RESET, version=1, offset=0, detail="earliest")
    story.queue(30, "c1", E.LOCK_EXPIRED, reset, version=1, offset=50, n=9, detail="reset")
    story.queue(32, "c1", E.QUEUE_DROPPED, reset, version=1, detail="reset")
    story.queue(40, "c2", E.QUEUE_ACQUIRED, reset, version=2, offset=0)
    story.queue(45, "c2", E.MESSAGES_HANDED_OUT, version=2, offset=50, n=50)
    _, owned, _ = story.run()
    assert [(row.ended, row.redelivered, row.possible_duplicates) for row in owned] == [("reset", 0, 0), ("open", 0, 0)]


def test_a_queue_is_not_an_orphan_while_no_one_is_there_to_want_it() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    story.queue(10, "c1", E.QUEUE_ACQUIRED, version=1, offset=0)
    stop = story.client(100, "c1", E.CLIENT_STOP)
    story.queue(110, "c1", E.QUEUE_DROPPED, stop, version=1, detail="shutdown")
    start = story.client(60_100, "c2", E.CLIENT_START)
    story.queue(60_130, "c2", E.QUEUE_ACQUIRED, start, version=2, offset=0)
    figures, owned, _ = story.run()
    assert [row.orphan_ms for row in owned] == [0, 30]
    assert figures.totals().orphan_ms == 30


def test_a_queue_without_an_owner_counts_from_moment_to_moment_until_its_broker_has_it_no_more() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    story.queue(10, "c1", E.QUEUE_ACQUIRED, version=1, offset=0)
    story.queue(100, "c1", E.QUEUE_DROPPED, version=1, detail="revoked")
    figures = compute_figures(story.events, "g")
    figures.advance(250)
    assert (figures.totals().orphans, figures.totals().orphan_ms) == (1, 150)
    story.tell(300, "b", E.ROUTE_CHANGED, group="", topic="t", broker="b", n=0)
    figures.feed(story.events[-1])
    figures.advance(900)
    assert (figures.totals().orphans, figures.totals().orphan_ms) == (0, 200)


def test_an_owner_that_receives_later_that_its_queue_is_gone_leaves_no_orphan() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    story.queue(10, "c1", E.QUEUE_ACQUIRED, queue_id=3, version=1, offset=0)
    story.tell(50, "b", E.ROUTE_CHANGED, group="", topic="t", broker="b", n=2)
    story.queue(90, "c1", E.QUEUE_DROPPED, queue_id=3, version=1, detail="revoked")
    figures, _, _ = story.run(500)
    assert (figures.totals().orphans, figures.totals().orphan_ms) == (0, 0)


def test_a_release_at_the_broker_ends_the_time_of_an_owner_that_was_killed_before_it_could_report_its_drop() -> None:
    story = Story()
    story.queue(10, "c1", E.LOCK_GRANTED, version=1, offset=0, n=0)
    story.queue(11, "c1", E.QUEUE_ACQUIRED, version=1, offset=0)
    released: dict[str, Any] = {
        "topic": "t",
        "broker": "b",
        "queue_id": 0,
        "client": "c1",
        "version": 1,
        "detail": "unlock",
    }
    story.tell(100, "b", E.QUEUE_RELEASED, **released)
    story.queue(130, "c2", E.LOCK_GRANTED, version=2, offset=0, n=0)
    story.queue(131, "c2", E.QUEUE_ACQUIRED, version=2, offset=0)
    figures, [first, second], _ = story.run(500)
    assert (first.to_ms, first.ended, second.from_client) == (100, "released", "c1")
    assert (figures.totals().double_ms, second.orphan_ms, second.double_ms) == (0, 31, 0)


def test_a_member_whose_clock_is_late_never_owns_a_queue_longer_than_its_lease() -> None:
    story = Story()
    story.queue(10, "c1", E.LOCK_GRANTED, version=1, offset=0, n=0)
    story.queue(300, "c1", E.LOCK_EXPIRED, version=1, detail="expiry")
    story.queue(310, "c1", E.QUEUE_ACQUIRED, version=1, offset=0)
    story.queue(320, "c2", E.LOCK_GRANTED, version=2, offset=0, n=0)
    story.queue(321, "c2", E.QUEUE_ACQUIRED, version=2, offset=0)
    figures, owned, _ = story.run(500)
    assert [(row.owner, row.from_ms, row.to_ms) for row in owned] == [("c2", 321, 500)]
    assert figures.totals().double_ms == 0


def test_a_broker_that_lost_its_data_counts_its_leases_again() -> None:
    story = Story()
    story.queue(10, "c1", E.LOCK_GRANTED, version=9, offset=0, n=0)
    story.queue(11, "c1", E.QUEUE_ACQUIRED, version=9, offset=0)
    story.queue(100, "c1", E.LOCK_EXPIRED, version=9, detail="close")
    story.queue(200, "c2", E.LOCK_GRANTED, version=1, offset=0, n=0)
    story.queue(201, "c2", E.QUEUE_ACQUIRED, version=1, offset=0)
    assert [(row.owner, row.from_ms, row.to_ms) for row in story.run(500)[1]] == [("c1", 11, 100), ("c2", 201, 500)]
