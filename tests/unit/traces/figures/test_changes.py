from __future__ import annotations

from tests.unit.traces.figures.group_events import E, Story
from traces.figures.changes import Changes


def test_one_change_of_which_two_brokers_report_is_one_row_and_the_next_one_another() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    for at_ms in (1_000, 3_000):
        for number, broker in enumerate(("a", "b")):
            cause = story.tell(at_ms + number, broker, E.ROUTE_CHANGED, group="", topic="t", broker=broker, n=8)
            story.client(at_ms + 10, "c1", E.REBALANCE_BEGIN, cause, detail="ROUTE")
            story.queue(at_ms + 20, "c1", E.QUEUE_ACQUIRED, cause, broker=broker, queue_id=at_ms, version=1, offset=0)
    rows = [row for row in story.run()[2] if row.moves]
    assert [(row.kind, row.cause, row.moves) for row in rows] == [
        ("ROUTE_CHANGED", "a/1", 2),
        ("ROUTE_CHANGED", "a/2", 2),
    ]


def test_a_member_that_dies_is_one_row_however_many_brokers_miss_it() -> None:
    story = Story()
    for client in ("c1", "c2"):
        story.client(0, client, E.CLIENT_START)
        for broker in ("a", "b"):
            story.tell(1, broker, E.MEMBER_JOIN, client=client, broker=broker, detail="t=*")
    for broker in ("a", "b"):
        story.queue(2, "c1", E.QUEUE_ACQUIRED, f"c1/{broker}", broker=broker, version=1, offset=0)
    for at_ms, broker in ((100, "a"), (20_000, "b")):
        gone = story.tell(at_ms, broker, E.MEMBER_LEAVE, client="c1", broker=broker, detail="expiry")
        story.tell(at_ms, broker, E.LOCK_EXPIRED, gone, topic="t", broker=broker, queue_id=0, client="c1", version=1)
        story.queue(at_ms + 5, "c2", E.QUEUE_ACQUIRED, gone, broker=broker, version=2, offset=0)
    figures, _, rebalances = story.run()
    [row] = [row for row in rebalances if row.kind == "MEMBER_LEAVE"]
    assert (row.moves, row.members, row.balance_ms) == (2, 1, 19_905)
    assert figures.totals().members_left == 1


def test_a_broker_that_goes_down_twice_within_seconds_is_distinguished_by_who_reports() -> None:
    changes, story = Changes(), Story()
    found = []
    for at_ms, client in ((0, "c1"), (10, "c2"), (900, "c1"), (950, "c2"), (60_000, "c3")):
        story.client(at_ms, client, E.BROKER_DOWN, group="", detail="10.0.0.1:1")
        found.append(changes.of(story.events[-1]).cause)
    assert found == ["c1/1", "c1/1", "c1/2", "c1/2", "c3/1"]


def test_a_change_is_as_its_first_event_reports_even_if_an_effect_comes_first() -> None:
    changes, story = Changes(), Story()
    story.client(5, "c1", E.REBALANCE_BEGIN, "c2/1", detail="NOTIFY")
    assert (changes.of(story.events[-1]).kind, changes.of(story.events[-1]).t_ms) == ("", 5)
    story.client(7, "c2", E.CLIENT_START, "c2/1")
    known = changes.of(story.events[-1])
    assert (known.kind, known.client, known.t_ms) == ("CLIENT_START", "c2", 5)


def causes_of(story: Story) -> list[str]:
    changes = Changes()
    return [changes.of(event).cause for event in story.events]


def test_a_member_that_stops_has_not_changed_its_subscriptions_as_well() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_STOP)
    for broker in ("a", "b"):
        story.tell(20, broker, E.SUBSCRIPTION_CHANGE, client="c1", broker=broker)
    story.tell(900, "a", E.MEMBER_LEAVE, client="c1", broker="a", detail="close")
    assert set(causes_of(story)) == {"c1/1"}
    story.client(1_000, "c1", E.CLIENT_START)
    story.tell(2_000, "a", E.SUBSCRIPTION_CHANGE, client="c1", broker="a", detail="t=*")
    story.tell(2_000, "a", E.SUBSCRIPTION_CHANGE, client="c2", broker="a", detail="t=*")
    assert causes_of(story)[-3:] == ["c1/2", "a/3", "a/4"]


def test_a_member_that_was_removed_and_loses_its_queues_is_one_change() -> None:
    story = Story()
    story.tell(0, "a", E.MEMBER_LEAVE, client="c1", broker="a", detail="close")
    for queue_id in range(3):
        story.queue(500, "c1", E.QUEUE_DROPPED, queue_id=queue_id, detail="lost")
        story.queue(500, "c2", E.QUEUE_DROPPED, queue_id=queue_id, detail="lost")
    assert causes_of(story) == ["a/1", *["a/1", "c2/1"] * 3]
