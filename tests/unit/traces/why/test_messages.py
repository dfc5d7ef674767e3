from __future__ import annotations

from typing import Any

import pytest

from model.events import EventKind
from model.message_queue import MessageQueue
from tests.unit.traces.figures.group_events import Story
from traces.check.reading import in_order
from traces.why.messages import MessageHistory, MessageTracker, TimesDispatched
from traces.why.words import message_lines

E = EventKind
QUEUE = MessageQueue("t", "b", 0)


def after_a_kill() -> Story:
    """c2 starts at 40, tells of 60, commits 55, and is killed; it had been served up to 80; c1 goes on at 55."""
    story = Story()
    cause = story.queue(0, "c2", E.QUEUE_ACQUIRED, version=7, offset=40)
    story.queue(100, "c2", E.MESSAGES_HANDED_OUT, cause, version=7, offset=60, n=20)
    commit(story, 101, "c2", 55)
    story.queue(500, "c2", E.LOCK_EXPIRED, version=7, offset=55, n=25, detail="close")
    cause = story.queue(510, "c1", E.QUEUE_ACQUIRED, version=8, offset=55)
    story.queue(600, "c1", E.MESSAGES_HANDED_OUT, cause, version=8, offset=90, n=35)
    return story


def commit(story: Story, t_ms: float, client: str, offset: int) -> None:
    story.tell(t_ms, "b", E.OFFSET_COMMITTED, topic="t", broker="b", queue_id=0, client=client, offset=offset, n=0)


def notified(story: Story, offset: int) -> MessageHistory:
    tracker = MessageTracker("g", QUEUE, offset)
    for event in in_order(story.events):
        tracker.process(event)
    return tracker.history()


@pytest.mark.parametrize(
    ("offset", "outcome", "clients"),
    [
        (39, TimesDispatched.NEVER, []),
        (50, TimesDispatched.ONCE, ["c2"]),
        (57, TimesDispatched.TWICE, ["c2", "c1"]),
        (70, TimesDispatched.MAYBE_TWICE, ["c2", "c1"]),
        (85, TimesDispatched.ONCE, ["c1"]),
        (90, TimesDispatched.NEVER, []),
    ],
)
def test_who_was_given_a_message_follows_from_what_owners_and_brokers_reported(
    offset: int, outcome: TimesDispatched, clients: list[str]
) -> None:
    story = notified(after_a_kill(), offset)
    assert (story.outcome, [handout.client for handout in story.handouts]) == (outcome, clients)


def test_a_message_that_came_twice_after_a_kill_is_explained_by_the_lease_and_the_last_commit() -> None:
    said = " ".join(message_lines(notified(after_a_kill(), 57)))
    assert "was dispatched to listeners of g 2 times" in said
    assert "c2 reported at 00:00:00.100 that it had dispatched it under lease 7" in said
    assert "served under the lease of c2, which ended at 00:00:00.500: its connection was lost" in said
    assert "Its last commit was 55, so c1 got the queue from there" in said
    assert "has not committed it yet" in said


def test_a_member_that_was_killed_after_its_release_had_ended_when_the_next_one_got_the_queue() -> None:
    story = Story()
    story.queue(0, "c1", E.QUEUE_ACQUIRED, version=1, offset=40)
    story.queue(10, "c1", E.MESSAGES_HANDED_OUT, version=1, offset=60, n=20)
    place: dict[str, Any] = {"topic": "t", "broker": "b", "queue_id": 0, "client": "c1", "version": 1}
    story.tell(90, "b", E.QUEUE_RELEASED, detail="unlock", **place)
    story.queue(110, "c2", E.QUEUE_ACQUIRED, version=2, offset=40)
    story.queue(120, "c2", E.MESSAGES_HANDED_OUT, version=2, offset=60, n=20)
    lines = message_lines(notified(story, 50))
    assert any("c1 ended at" in line and "it released the lease" in line for line in lines)
    assert not any("two members owned it" in line for line in lines)


def test_a_message_that_came_never_says_what_moved_the_group_past_it() -> None:
    assert "the group began this queue at offset 40" in " ".join(message_lines(notified(after_a_kill(), 39)))
    assert "Not yet: c1 owns the queue and has reached offset 90" in " ".join(
        message_lines(notified(after_a_kill(), 95))
    )
    story = after_a_kill()
    story.tell(700, "b", E.OFFSET_RESET, topic="t", broker="b", queue_id=0, client="c1", offset=200, detail="offset")
    assert "an operator reset the offset to 200" in " ".join(message_lines(notified(story, 95)))


def test_a_commit_that_passes_what_no_one_reported_to_have_dispatched_is_named() -> None:
    story = after_a_kill()
    commit(story, 700, "c1", 99)
    assert "c1 committed 99 at 00:00:00.700, which passes it" in " ".join(message_lines(notified(story, 95)))


def test_an_operator_who_resets_the_offset_makes_a_message_are_redelivered() -> None:
    story = after_a_kill()
    commit(story, 650, "c1", 90)
    story.tell(700, "b", E.OFFSET_RESET, topic="t", broker="b", queue_id=0, client="c1", offset=80, detail="offset")
    story.queue(701, "c1", E.QUEUE_DROPPED, version=8, detail="reset")
    cause = story.queue(710, "c1", E.QUEUE_ACQUIRED, version=9, offset=80)
    story.queue(720, "c1", E.MESSAGES_HANDED_OUT, cause, version=9, offset=90, n=10)
    found = notified(story, 85)
    assert found.outcome is TimesDispatched.TWICE
    assert "An operator reset the offset at 00:00:00.70" in " ".join(message_lines(found))


def test_a_dead_letter_says_so() -> None:
    story = after_a_kill()
    story.tell(700, "b", E.DEAD_LETTER, topic="t", broker="b", queue_id=0, offset=85, n=1)
    assert message_lines(notified(story, 85))[-1].startswith("It failed for the last time")
