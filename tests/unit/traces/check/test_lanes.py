"""Each rule about order: a history that keeps it, and one that breaks it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from traces.check.evidence import Evidence
from traces.check.lanes import MAX_SETTLED, Lanes
from traces.check.ledger import Ending, SentMessage, dispatched_line, ended_line, sent_line
from traces.check.limits import OrderScope
from traces.check.verdict import Rule

QUEUE = MessageQueue("t", "b", 0)


@dataclass
class Story:
    """A group reads one queue; offsets have the keys a b a b ..."""

    keeps: OrderScope
    evidence: Evidence = field(default_factory=lambda: Evidence(complete=True))
    now: float = 0.0

    def __post_init__(self) -> None:
        self.lanes = Lanes("g", self.keeps, self.evidence)

    def lease(self, kind: EventKind, client: str) -> None:
        self.now += 1
        self.lanes.watch(Event(self.now, "b", 1, kind, group="g", topic="t", broker="b", queue_id=0, client=client))

    def grant(self, client: str) -> None:
        self.lease(EventKind.LOCK_GRANTED, client)
        self.lease(EventKind.QUEUE_ACQUIRED, client)

    def send(self, offset: int) -> None:
        self.lanes.sent(sent_line(self.now, SentMessage(0, offset), QUEUE, offset), QUEUE, "ab"[offset % 2])

    def start(self, client: str, offset: int) -> None:
        self.now += 1
        key = "ab"[offset % 2]
        self.lanes.started(
            dispatched_line(self.now, "g", client, SentMessage(0, offset), QUEUE, offset, key), QUEUE, key
        )

    def end(self, client: str, offset: int, *, settles: bool = True) -> None:
        key = "ab"[offset % 2]
        line = ended_line(self.now, "g", client, SentMessage(0, offset), QUEUE, offset, key, Ending.PROCESSED)
        self.lanes.ended(line, QUEUE, key, settled=settles)

    def do(self, client: str, *offsets: int) -> None:
        for offset in offsets:
            self.start(client, offset)
            self.end(client, offset)

    @property
    def broken(self) -> list[Rule]:
        return [anomaly.rule for anomaly in self.evidence.anomalies]


@pytest.fixture(params=[OrderScope.KEY, OrderScope.QUEUE])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(request.param)


def test_a_queue_that_is_consumed_in_order_and_handed_on_breaks_no_rule(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0, 1)
    story.start("c1", 2)
    story.end("c1", 2, settles=False)
    story.do("c1", 2, 3)
    story.lease(EventKind.QUEUE_RELEASED, "c1")
    story.grant("c2")
    story.do("c2", 4, 5)
    assert story.broken == []


def test_a_new_owner_may_repeat_a_suffix_but_leave_nothing_out(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0, 1, 2, 3, 4)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c2", 0, 1, 2)
    assert story.broken == []
    story.do("c2", 5)
    assert story.broken == [Rule.POLL_SKIP]


def test_who_dispatches_what_another_member_holds_is_named(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c1", 1)
    [anomaly] = story.evidence.anomalies
    assert anomaly.rule is Rule.DOUBLE_OWNER
    assert "c1 was given offset 1" in anomaly.text
    assert "c2 held the lease" in anomaly.text


def test_between_two_owners_the_last_one_may_go_on(story: Story) -> None:
    story.grant("c1")
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.do("c1", 0)
    assert story.broken == []


def test_only_messages_of_different_lanes_run_at_the_same_time(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.start("c1", 1)
    assert story.broken == ([] if story.keeps is OrderScope.KEY else [Rule.OUT_OF_ORDER] * 2)
    story.start("c1", 2)
    assert story.broken[-2:] == [Rule.OUT_OF_ORDER] * 2


def test_a_release_has_to_wait_for_the_listener(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.lease(EventKind.QUEUE_RELEASED, "c1")
    story.grant("c2")
    story.start("c2", 0)
    assert story.broken == [Rule.OUT_OF_ORDER]


def test_no_one_waits_for_the_listener_of_a_member_whose_lease_ran_out_but_that_member_itself(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c2", 0)
    assert story.broken == []
    story.lease(EventKind.QUEUE_RELEASED, "c2")
    story.grant("c1")
    story.start("c1", 2 if story.keeps is OrderScope.KEY else 1)
    assert story.broken == [Rule.OUT_OF_ORDER]


def test_a_message_that_becomes_known_when_those_behind_it_are_settled_was_overtaken(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 2)
    story.send(0)
    assert story.broken == [Rule.OUT_OF_ORDER]


def test_an_owner_that_goes_back_without_having_lost_the_queue_is_distinguished_from_one_that_acquired_it_again(
    story: Story,
) -> None:
    story.grant("c1")
    story.do("c1", 0, 2, 0)
    assert story.broken == [Rule.NONMONOTONIC_POLL]
    story.grant("c1")
    story.do("c1", 0)
    assert story.broken == [Rule.NONMONOTONIC_POLL]


def test_what_is_long_settled_is_forgotten_and_may_are_redelivered(story: Story) -> None:
    story.grant("c1")
    story.do("c1", *range(6 * MAX_SETTLED))
    [queue] = story.lanes._queues.values()
    assert all(len(lane.known) < 2 * MAX_SETTLED + 1 for lane in queue.lanes.values())
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c2", *range(6 * MAX_SETTLED))
    assert story.broken == []


def test_a_group_that_keeps_no_order_is_not_judged() -> None:
    story = Story(OrderScope.NONE)
    story.start("c1", 5)
    story.start("c1", 0)
    assert story.broken == []
