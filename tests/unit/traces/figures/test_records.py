from __future__ import annotations

from tests.unit.traces.figures.group_events import E, Story, moved_story
from traces.figures.records import order_of


def test_at_equal_times_the_broker_comes_first_and_each_node_in_its_own_order() -> None:
    story = Story()
    story.queue(5, "a", E.QUEUE_ACQUIRED, version=1)
    story.queue(5, "a", E.FIRST_PULL, version=1)
    story.queue(5, "a", E.LOCK_GRANTED, version=1)
    story.queue(4, "z", E.QUEUE_DROPPED, version=1)
    ordered = sorted(reversed(story.events), key=order_of)
    assert [event.kind for event in ordered] == ["QUEUE_DROPPED", "LOCK_GRANTED", "QUEUE_ACQUIRED", "FIRST_PULL"]


def test_the_time_to_balance_goes_from_the_cause_to_the_last_queue() -> None:
    [_, joined] = moved_story().run()[2]
    assert joined.balance_ms == joined.ended_ms - joined.began_ms == 60
