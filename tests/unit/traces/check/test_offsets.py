from __future__ import annotations

from typing import Any

import pytest

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from traces.check.evidence import Evidence
from traces.check.offsets import SEEK, OffsetRules
from traces.check.verdict import Rule

E = EventKind


class Story:
    """One queue of one group."""

    def __init__(self) -> None:
        self.evidence = Evidence(complete=True)
        self.rules = OffsetRules(self.evidence)
        self.now = 0.0

    def tell(self, kind: EventKind, client: str, offset: int, n: int = -1, detail: str = "") -> None:
        self.now += 1
        place: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue_id": 0, "client": client}
        self.rules.process(Event(self.now, client, 1, kind, version=7, offset=offset, n=n, detail=detail, **place))

    @property
    def broken(self) -> list[Rule]:
        return [anomaly.rule for anomaly in self.evidence.anomalies]


@pytest.fixture
def story() -> Story:
    made = Story()
    made.tell(E.QUEUE_ACQUIRED, "c1", 0)
    made.tell(E.MESSAGES_HANDED_OUT, "c1", 60, 60)
    made.tell(E.OFFSET_COMMITTED, "c1", 55)
    return made


def test_a_new_owner_begins_where_the_group_has_committed(story: Story) -> None:
    story.tell(E.QUEUE_DROPPED, "c1", -1)
    story.tell(E.QUEUE_ACQUIRED, "c2", 55)
    assert story.broken == []


def test_a_topic_that_was_deleted_and_recreated_begins_again_on_that_broker_alone(story: Story) -> None:
    deleted = Event(9.0, "b2", 1, E.ROUTE_CHANGED, topic="t", broker="b2", n=0, detail="deleted")
    story.rules.deleted(deleted)
    assert story.rules.committed(MessageQueue("t", "b", 0)) == 55
    story.rules.deleted(deleted._replace(node="b", broker="b"))
    story.tell(E.QUEUE_ACQUIRED, "c2", 0)
    story.tell(E.OFFSET_COMMITTED, "c2", 0)
    assert story.broken == []


def test_the_first_owner_at_a_new_master_may_begin_at_a_commit_whose_event_the_last_master_has_not_sent(
    story: Story,
) -> None:
    story.rules.master_changed("another")
    story.rules.master_changed("b")
    story.tell(E.QUEUE_ACQUIRED, "c2", 70)
    assert story.broken == []
    story.tell(E.QUEUE_ACQUIRED, "c3", 80)
    assert story.broken == [Rule.POLL_SKIP]


def test_a_new_owner_that_begins_beyond_what_anyone_was_given_skips(story: Story) -> None:
    story.tell(E.QUEUE_ACQUIRED, "c2", 70)
    [anomaly] = story.evidence.anomalies
    assert anomaly.rule is Rule.POLL_SKIP
    assert "the 10 messages 60 to 69" in anomaly.text


def test_a_new_owner_that_begins_below_the_committed_offset_repeats(story: Story) -> None:
    story.tell(E.QUEUE_ACQUIRED, "c2", 54)
    [anomaly] = story.evidence.anomalies
    assert anomaly.rule is Rule.DUPLICATE
    assert "redelivery of message 54" in anomaly.text


def test_a_commit_that_passes_what_was_dispatched_is_judged_when_its_owner_has_reported_all(story: Story) -> None:
    story.tell(E.OFFSET_COMMITTED, "c1", 80)
    assert story.broken == []
    story.tell(E.MESSAGES_HANDED_OUT, "c1", 80, 20)
    story.tell(E.OFFSET_COMMITTED, "c1", 90)
    story.tell(E.QUEUE_DROPPED, "c1", -1)
    assert story.broken == [Rule.LOST_WRITE]


def test_an_owner_that_died_cannot_report_what_it_dispatched(story: Story) -> None:
    story.tell(E.OFFSET_COMMITTED, "c1", 80)
    story.tell(E.LOCK_EXPIRED, "c1", 80)
    story.tell(E.QUEUE_DROPPED, "c1", -1)
    assert story.broken == []


@pytest.mark.parametrize("kind", [E.OFFSET_RESET, E.OFFSET_MOVED])
def test_an_operator_and_a_deletion_may_set_the_offset_anywhere(story: Story, kind: EventKind) -> None:
    story.tell(kind, "c1", 10)
    story.tell(E.OFFSET_COMMITTED, "c1", 10)
    story.tell(E.QUEUE_ACQUIRED, "c2", 10)
    story.tell(kind, "c2", 500)
    story.tell(E.QUEUE_ACQUIRED, "c3", 500)
    assert story.broken == []


def test_a_member_may_seek_back_and_a_late_commit_may_not(story: Story) -> None:
    story.tell(E.OFFSET_COMMITTED, "c1", 20, detail=SEEK)
    assert story.broken == []
    story.tell(E.OFFSET_COMMITTED, "c1", 19)
    assert story.broken == [Rule.NONMONOTONIC_COMMIT]


def test_records_that_are_not_messages_may_be_passed(story: Story) -> None:
    story.tell(E.MESSAGES_UNDECODABLE, "c1", 60, 4)
    story.tell(E.OFFSET_COMMITTED, "c1", 64)
    story.tell(E.QUEUE_DROPPED, "c1", -1)
    assert story.broken == []


def test_of_a_topic_of_which_the_members_want_some_messages_only_a_commit_may_pass_the_others(story: Story) -> None:
    story.rules.filtered["t"] = None
    story.tell(E.OFFSET_COMMITTED, "c1", 90)
    story.tell(E.QUEUE_DROPPED, "c1", -1)
    assert story.broken == []
