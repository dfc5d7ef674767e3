"""The books of a group that pops: what they call a violation and what they do not."""

from __future__ import annotations

from model.message_queue import MessageQueue
from testbed.simulation.checks.pop import MAX_VIOLATIONS, SLACK_S, PopCheck

QUEUE = MessageQueue("t", "broker-a", 0)
PLACE = ("broker-a", "g t:0")


def delivered(check: PopCheck, *offsets: int, now: float = 1.0) -> None:
    for offset in offsets:
        check.delivered("c1", QUEUE, offset, b"%d" % offset, now)


def test_a_message_may_come_twice_before_its_acknowledgement_is_answered_and_never_after() -> None:
    check = PopCheck()
    check.sent(b"5")
    delivered(check, 5, 5)
    check.acknowledging(QUEUE, 5)
    delivered(check, 5)
    assert (check.violations, check.again, check.lag) == ([], 2, 0)
    check.acknowledged(QUEUE, 5, 2.0)
    delivered(check, 5, now=3.0)
    assert check.violations == ["again: c1 gets t@broker-a:0 5 at 3.000 s; its acknowledgement was answered at 2.000 s"]


def test_what_is_neither_acknowledged_nor_dead_in_the_end_is_lost() -> None:
    check = PopCheck()
    for offset in range(3):
        check.sent(b"%d" % offset)
    delivered(check, 0, 1)
    check.acknowledging(QUEUE, 0)
    check.dead_letter(b"1")
    assert check.lag == 1
    assert check.missing() == ["lost: b'2' is neither acknowledged nor dead"]


def test_what_brokers_still_have_of_a_group_that_has_had_its_time_is_left() -> None:
    check = PopCheck()
    check.rested({})
    assert check.violations == []
    check.rested({PLACE: 4})
    assert check.violations == [f"left: {PLACE} has 4 messages that are neither acknowledged nor dead"]


def test_the_end_of_an_invisible_time_may_not_pass_unnoticed() -> None:
    check = PopCheck()
    check.check({PLACE: -3.0}, {}, 1.0)
    check.check({PLACE: SLACK_S}, {}, 1.1)
    assert check.violations == []
    check.check({PLACE: SLACK_S * 2}, {}, 1.2)
    assert [violation.partition(":")[0] for violation in check.violations] == ["hidden"]


def test_a_message_whose_time_is_over_may_not_wait_while_a_consumer_waits_for_it() -> None:
    check = PopCheck()
    check.check({}, {PLACE: 1}, 1.0)
    check.check({}, {}, 1.05)  # somebody got it
    check.check({}, {PLACE: 1}, 1.09)
    check.check({}, {PLACE: 2}, 1.15)
    assert check.violations == []
    check.check({}, {PLACE: 2}, 1.3)
    assert [violation.partition(":")[0] for violation in check.violations] == ["late"]


def test_only_the_first_violations_are_kept() -> None:
    check = PopCheck()
    check.acknowledged(QUEUE, 1, 0.0)
    delivered(check, *[1] * 2 * MAX_VIOLATIONS)
    assert len(check.violations) == MAX_VIOLATIONS
