"""Traces of one move, told by hand."""

from __future__ import annotations

from model.events import EventKind
from tests.unit.traces.figures.group_events import Story
from traces.check.reading import in_order
from traces.why.moves import MoveTracker, QueueMove

E = EventKind


def moves_of(story: Story) -> list[QueueMove]:
    """All moves of group g."""
    tracker = MoveTracker("g")
    found = [move for event in in_order(story.events) for move in tracker.process(event)]
    return found + tracker.finish()


def first_owner() -> tuple[Story, str]:
    """c1 owns q0."""
    story = Story()
    began = story.client(0, "c1", E.CLIENT_START)
    story.client(2, "c1", E.REBALANCE_BEGIN, began, detail="START")
    story.queue(3, "c1", E.LOCK_GRANTED, began, version=7, offset=0, n=1)
    story.queue(4, "c1", E.QUEUE_ACQUIRED, began, version=7, offset=0)
    story.queue(5, "c1", E.FIRST_PULL, began, version=7, offset=0)
    story.queue(9, "c1", E.FIRST_MESSAGE, began, version=7, offset=0)
    return story, began


def handed_over(*, notified: bool = True, sent: bool = True) -> Story:
    """c2 joins at 100; c1 drops q0 because of a notification, or by its timer 18 s later."""
    story, _ = first_owner()
    joined = story.client(100, "c2", E.CLIENT_START)
    story.tell(103, "b", E.MEMBER_JOIN, joined, broker="b", client="c2", version=5, n=2, detail="t=*")
    if sent:
        story.tell(104, "b", E.NOTIFY_SENT, joined, broker="b", version=5, n=2)
    at, cause = 106.0, joined
    if notified:
        story.client(105, "c1", E.NOTIFY_RECEIVED, joined, version=5)
        story.client(106, "c1", E.REBALANCE_BEGIN, joined, detail="NOTIFY")
    else:
        at = 18_000.0
        cause = story.client(at, "c1", E.REBALANCE_BEGIN, detail="TIMER")
    story.queue(at + 1, "c1", E.QUEUE_DROPPED, cause, version=7, detail="revoked")
    place = {"topic": "t", "broker": "b", "queue_id": 0, "client": "c1", "version": 7}
    story.tell(at + 3, "b", E.QUEUE_RELEASED, cause, detail="unlock", **place)
    story.client(at + 4, "c2", E.REBALANCE_BEGIN, cause, detail="LOCK")
    story.queue(at + 5, "c2", E.LOCK_GRANTED, cause, version=8, offset=55, n=3)
    story.queue(at + 6, "c2", E.QUEUE_ACQUIRED, cause, version=8, offset=55)
    story.queue(at + 7, "c2", E.FIRST_PULL, cause, version=8, offset=55)
    story.queue(at + 10, "c2", E.FIRST_MESSAGE, cause, version=8, offset=55)
    return story
