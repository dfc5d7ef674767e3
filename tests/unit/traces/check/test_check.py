from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from model.events import EventKind
from tests.unit.traces.check.histories import (
    LIMITS,
    PLANTED,
    E,
    checkers,
    clean,
    numbered,
    plant_failed_and_stored,
    restarted_members,
    two_owners,
)
from tests.unit.traces.figures.group_events import Story
from traces.check.check import HistoryCheck
from traces.check.limits import HistoryLimits
from traces.check.verdict import MAX_WITNESS, Answer, Rule


def test_a_history_in_which_members_come_and_go_keeps_every_rule() -> None:
    verdict = checkers(numbered(clean()))
    assert (verdict.answer, verdict.anomalies) == (Answer.YES, ())
    assert {each.rule for each in verdict.rules if not each.checked} == set(), "each rule has something to judge"
    later = [event._replace(t_ms=event.t_ms + 1e12) for event in numbered(clean())]
    assert checkers(later).span_ms == verdict.span_ms == 251
    [messages] = verdict.messages
    assert (messages.sent, messages.received, messages.lost, messages.duplicates) == (30, 30, 0, 0)


def test_a_message_of_a_failed_send_may_come_and_a_failed_listener_may_get_it_again() -> None:
    story = clean()
    plant_failed_and_stored(story)
    assert checkers(numbered(story)).answer is Answer.YES


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.removeprefix("plant_"))
def test_each_planted_anomaly_is_found_and_named_and_nothing_else_is(plant: Callable[[Story], None]) -> None:
    story = clean()
    plant(story)
    verdict = checkers(numbered(story))
    assert {anomaly.rule for anomaly in verdict.anomalies} == {PLANTED[plant]}
    assert verdict.answer is Answer.NO
    events = numbered(story)
    assert verdict.of(PLANTED[plant]).found >= 1
    for anomaly in verdict.anomalies:
        assert 1 <= len(anomaly.witness) <= MAX_WITNESS
        assert all(event in events for event in anomaly.witness if event.seq >= 0)
        assert anomaly.text.endswith(".")


def test_a_rule_with_nothing_to_judge_says_neither_yes_nor_no() -> None:
    story = Story()
    story.client(1, "c1", E.CLIENT_START)
    story.queue(2, "c1", E.LOCK_GRANTED, version=1, offset=0, n=0)
    verdict = checkers(numbered(story))
    answers = {each.rule: each.answer for each in verdict.rules}
    assert answers.pop(Rule.DOUBLE_OWNER) is Answer.YES
    assert answers.pop(Rule.ORPHAN) is Answer.YES
    assert set(answers.values()) == {Answer.NOTHING}
    assert Answer.NOTHING.value == "-"
    assert verdict.answer is Answer.YES


def test_a_queue_that_moves_because_members_are_restarted_does_not_flap() -> None:
    verdict = checkers(numbered(restarted_members()))
    assert verdict.of(Rule.FLAP).checked > 5
    assert [anomaly.text for anomaly in verdict.anomalies if anomaly.rule is Rule.FLAP] == []


def killed_after_release() -> Story:
    """c1 commits 20 and releases q0, and is killed before it can report its last dispatches and its drop."""
    story = Story()
    first = story.client(1, "c1", E.CLIENT_START)
    place: dict[str, Any] = {"topic": "t", "broker": "b", "queue_id": 0}
    story.tell(2, "b", E.MEMBER_JOIN, first, broker="b", client="c1", version=1, n=1, detail="t=*")
    story.queue(3, "c1", E.LOCK_GRANTED, first, version=1, offset=0, n=0)
    story.queue(4, "c1", E.QUEUE_ACQUIRED, first, version=1, offset=0)
    story.queue(100, "c1", E.MESSAGES_HANDED_OUT, first, version=1, offset=10, n=10)
    joined = story.tell(5_000, "b", E.MEMBER_JOIN, broker="b", client="c2", version=2, n=2, detail="t=*")
    story.tell(5_001, "b", E.NOTIFY_SENT, joined, broker="b", version=2, n=2)
    story.tell(5_050, "b", E.OFFSET_COMMITTED, first, client="c1", offset=20, n=0, **place)
    story.tell(5_050, "b", E.QUEUE_RELEASED, joined, client="c1", version=1, detail="unlock", **place)
    story.queue(5_060, "c2", E.LOCK_GRANTED, joined, version=2, offset=20, n=0)
    story.queue(5_061, "c2", E.QUEUE_ACQUIRED, joined, version=2, offset=20)
    story.tell(5_100, "b", E.MEMBER_LEAVE, broker="b", client="c1", version=3, n=1, detail="close")
    story.tell(5_101, "b", E.NOTIFY_SENT, broker="b", version=3, n=1)
    story.queue(19_000, "c2", E.MESSAGES_HANDED_OUT, joined, version=2, offset=30, n=10)
    story.queue(20_000, "c2", E.QUEUE_DROPPED, joined, version=2, detail="shutdown")
    story.tell(20_001, "b", E.QUEUE_RELEASED, joined, client="c2", version=2, detail="unlock", **place)
    return story


@pytest.mark.parametrize("complete", [False, True])
def test_a_member_that_was_killed_after_its_release_is_accused_of_nothing(complete: bool) -> None:
    verdict = checkers(numbered(killed_after_release()), HistoryLimits(complete=complete))
    assert (verdict.answer, verdict.anomalies) == (Answer.YES, ())
    assert verdict.of(Rule.DOUBLE_OWNER).checked
    assert verdict.of(Rule.LOST_WRITE).checked


def test_two_owners_are_judged_by_the_declared_window() -> None:
    events = [event for event in numbered(two_owners()) if event.seq >= 0]
    limits = replace(LIMITS, complete=True, double_owner_ms=50)
    [anomaly] = checkers(events, limits).anomalies
    assert anomaly.rule is Rule.DOUBLE_OWNER
    assert anomaly.text == "c1 and c2 owned t@b:0 at the same time for 82 ms."
    assert checkers(events, replace(limits, double_owner_ms=100)).anomalies == ()


@pytest.mark.walk
def test_every_rule_has_a_planted_anomaly() -> None:
    assert set(PLANTED.values()) == set(Rule)


def test_a_history_without_anything_to_judge_is_unknown() -> None:
    assert HistoryCheck().finish().answer is Answer.UNKNOWN


def test_only_the_chosen_group_is_judged() -> None:
    story = clean()
    check = HistoryCheck(HistoryLimits(), only="other")
    for event in numbered(story):
        check.feed(event)
    assert check.groups == []


def test_a_queue_that_no_one_ever_owned_is_an_orphan() -> None:
    story = clean()
    story.tell(300, "b", EventKind.ROUTE_CHANGED, group="", topic="t", broker="b", n=3)
    story.client(40_000, "c1", EventKind.REBALANCE_BEGIN, detail="TIMER")
    [anomaly] = [each for each in checkers(numbered(story)).anomalies if each.rule is Rule.ORPHAN]
    assert "t@b:2 never had an owner" in anomaly.text


def test_a_node_that_sent_its_events_twice_is_judged_once() -> None:
    events = numbered(clean())
    verdict = checkers([*events, *(event for event in events if event.seq >= 0)])
    assert verdict.answer is Answer.YES
    assert verdict.lost_events == 0


def test_missing_events_cast_doubt_on_what_rests_on_them() -> None:
    story = clean()
    plant, _ = next(iter(PLANTED.items()))
    plant(story)
    events = [event for event in numbered(story) if not (event.node == "b" and event.kind == "NOTIFY_SENT")]
    verdict = checkers(events)
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.of(Rule.DOUBLE_OWNER).doubtful == 1
    assert "1 event of b is missing" in verdict.anomalies[0].doubt
    assert checkers(events, replace(LIMITS, complete=True)).answer is Answer.NO, "its owner knows that none is missing"
