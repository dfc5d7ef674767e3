"""Each rule of the order check: a history that keeps it, and one that breaks it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from simulation.checks.order import MAX_VIOLATIONS, OrderCheck

QUEUE = MessageQueue("t", "b", 0)


@dataclass
class Story:
    """Two groups read one queue; offsets have the keys a b a b ..."""

    check: OrderCheck = field(default_factory=lambda: OrderCheck({"keys": True, "queues": False}))
    group: str = "keys"

    def lease(self, kind: EventKind, client: str) -> None:
        self.check.watch(lease_event(kind, client, self.group))

    def grant(self, client: str) -> None:
        self.lease(EventKind.LOCK_GRANTED, client)
        self.lease(EventKind.QUEUE_ACQUIRED, client)

    def start(self, client: str, offset: int) -> None:
        self.check.started(self.group, client, QUEUE, offset, "ab"[offset % 2])

    def end(self, client: str, offset: int, *, settles: bool = True) -> None:
        self.check.ended(self.group, client, QUEUE, offset, "ab"[offset % 2])
        if settles:
            self.check.processed(self.group, QUEUE, offset, "ab"[offset % 2], offset // 2)

    def do(self, client: str, *offsets: int) -> None:
        for offset in offsets:
            self.start(client, offset)
            self.end(client, offset)

    @property
    def rules_broken(self) -> list[str]:
        return [violation.partition(":")[0] for violation in self.check.violations]


def lease_event(kind: EventKind, client: str, group: str) -> Event:
    return Event(0.0, "b", 1, kind, group=group, topic="t", broker="b", queue_id=0, client=client)


@pytest.fixture(params=["keys", "queues"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(group=request.param)


def test_a_queue_that_is_consumed_in_order_and_handed_on_breaks_no_rule(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0, 1)
    story.start("c1", 2)
    story.end("c1", 2, settles=False)
    story.do("c1", 2, 3)
    story.lease(EventKind.QUEUE_RELEASED, "c1")
    story.grant("c2")
    story.do("c2", 4, 5)
    assert story.check.violations == []
    assert (story.check.starts, story.check.settled, story.check.lag) == (7, 6, 0)


def test_a_new_owner_may_repeat_a_suffix_but_leave_nothing_out(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0, 1, 2, 3)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c2", 0, 1, 2)
    assert story.check.violations == []
    story.do("c2", 6)
    assert story.rules_broken == [] if story.group == "keys" else ["repeat"]


def test_who_hands_out_what_another_member_holds_is_named(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c1", 1)
    assert story.rules_broken == ["owner"]
    assert "c1 starts" in story.check.violations[0]
    assert "c2 holds" in story.check.violations[0]


def test_a_queue_that_somebody_holds_is_granted_to_nobody_else(story: Story) -> None:
    story.grant("c1")
    story.grant("c1")
    assert story.check.violations == []
    story.grant("c2")
    assert story.rules_broken == ["lease"]


def test_between_two_owners_the_last_one_may_go_on(story: Story) -> None:
    story.grant("c1")
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.do("c1", 0)
    assert story.check.violations == []


def test_only_messages_of_different_lanes_run_at_the_same_time(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.start("c1", 1)
    assert story.rules_broken == ([] if story.group == "keys" else ["overlap", "order"])
    story.start("c1", 2)
    assert story.rules_broken[-2:] == ["overlap", "order"]


def test_a_release_has_to_wait_for_the_listener(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.lease(EventKind.QUEUE_RELEASED, "c1")
    story.grant("c2")
    story.start("c2", 0)
    assert story.rules_broken == ["overlap"]


def test_nobody_waits_for_the_listener_of_a_member_whose_lease_ran_out_but_that_member_itself(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c2", 0)
    assert story.check.violations == []
    story.lease(EventKind.QUEUE_RELEASED, "c2")
    story.grant("c1")
    story.start("c1", 2 if story.group == "keys" else 1)
    assert story.rules_broken == ["overlap"]


def test_a_message_that_starts_before_an_earlier_one_is_settled_has_overtaken_it(story: Story) -> None:
    story.check.acknowledged(QUEUE, 0, "a")
    story.grant("c1")
    story.start("c1", 0)
    story.end("c1", 0, settles=False)
    story.start("c1", 2)
    assert "order" in story.rules_broken


def test_a_message_that_becomes_known_when_those_behind_it_are_settled_was_left_out(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 2)
    story.check.acknowledged(QUEUE, 0, "a")
    assert story.rules_broken == ["order"]


def test_an_owner_that_goes_back_without_having_lost_the_queue_repeats_what_it_has_done(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0, 2, 0)
    assert story.rules_broken == ["repeat"]
    story.grant("c1")
    story.do("c1", 0)
    assert story.rules_broken == ["repeat"]


def test_an_owner_that_leaves_something_out_does_not_repeat_a_suffix(story: Story) -> None:
    story.grant("c1")
    story.do("c1", 0, 2, 4)
    story.lease(EventKind.LOCK_EXPIRED, "c1")
    story.grant("c2")
    story.do("c2", 0, 4)
    assert story.rules_broken == ["repeat"]


def test_numbers_of_a_key_are_processed_as_they_were_sent(story: Story) -> None:
    story.grant("c1")
    story.check.processed(story.group, QUEUE, 0, "a", 1)
    story.check.processed(story.group, QUEUE, 2, "a", 1)
    assert story.check.violations == []
    story.check.processed(story.group, QUEUE, 4, "a", 0)
    assert story.rules_broken == ["numbers"]


def test_what_nobody_settled_is_lost_to_its_group(story: Story) -> None:
    story.check.acknowledged(QUEUE, 0, "a")
    assert story.check.lag == 2
    story.grant("c1")
    story.do("c1", 0)
    other = "queues" if story.group == "keys" else "keys"
    assert story.check.lag == 1
    assert story.check.missing() == [f"lost: {other} has not settled {QUEUE} 0"]


def test_a_dead_letter_is_settled_without_a_number(story: Story) -> None:
    story.grant("c1")
    story.start("c1", 0)
    story.check.processed(story.group, QUEUE, 0, "a", None)
    story.end("c1", 0, settles=False)
    story.start("c1", 2)
    assert story.check.violations == []


def test_events_of_other_groups_say_nothing_and_violations_are_bounded(story: Story) -> None:
    story.check.watch(lease_event(EventKind.LOCK_GRANTED, "x", "other"))
    story.grant("c2")
    for _ in range(2 * MAX_VIOLATIONS):
        story.do("c1", 0)
    assert len(story.check.violations) == MAX_VIOLATIONS
