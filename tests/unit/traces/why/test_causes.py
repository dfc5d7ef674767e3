from __future__ import annotations

from model.events import EventKind
from tests.unit.traces.figures.group_events import Story
from traces.figures.changes import Changes
from traces.why.causes import Causes, Discovery

E = EventKind


def test_a_pass_by_timer_is_due_to_the_first_change_since_the_pass_before_it() -> None:
    story, causes = Story(), Causes(Changes())
    story.client(0, "c1", E.REBALANCE_BEGIN, detail="START")
    story.tell(10, "b", E.MEMBER_LEAVE, broker="b", client="c2", version=5, n=1, detail="expiry")
    story.tell(20, "b", E.MEMBER_JOIN, broker="b", client="c3", version=6, n=2, detail="t=*")
    timer = story.client(20_000, "c1", E.REBALANCE_BEGIN, detail="TIMER")
    story.queue(20_001, "c1", E.QUEUE_ACQUIRED, timer, version=7, offset=0)
    for event in story.events:
        causes.process(event)
    root, learned = causes.root_of(story.events[-1], None)
    assert root == story.events[1]
    assert learned is Discovery.SILENT


def test_a_pass_that_asks_again_for_what_it_was_refused_is_due_to_what_freed_the_queue() -> None:
    story, causes = Story(), Causes(Changes())
    joined = story.client(0, "c2", E.CLIENT_START)
    story.queue(5, "c1", E.QUEUE_DROPPED, joined, version=7, detail="revoked")
    retry = story.client(1_000, "c2", E.REBALANCE_BEGIN, detail="TIMER")
    story.queue(1_001, "c2", E.QUEUE_ACQUIRED, retry, version=8, offset=0)
    for event in story.events:
        causes.process(event)
    root, learned = causes.root_of(story.events[-1], story.events[1])
    assert root == story.events[0]
    assert learned is Discovery.ITSELF


def test_a_cause_that_is_not_in_the_trace_is_none() -> None:
    story, causes = Story(), Causes(Changes())
    story.queue(5, "c1", E.QUEUE_ACQUIRED, "gone/1", version=7, offset=0)
    assert causes.root_of(story.events[0], None) == (None, Discovery.ITSELF)
