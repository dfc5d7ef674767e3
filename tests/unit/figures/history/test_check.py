from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from figures.history.check import HistoryCheck
from figures.history.limits import HistoryLimits
from figures.history.verdict import MAX_WITNESS, Answer, Rule
from model.events import EventKind
from tests.unit.figures.group_events import Story
from tests.unit.figures.history.histories import (
    LIMITS,
    PLANTED,
    clean,
    judge,
    numbered,
    plant_failed_and_stored,
    two_owners,
)


def test_a_history_in_which_members_come_and_go_keeps_every_rule() -> None:
    verdict = judge(numbered(clean()))
    assert (verdict.answer, verdict.anomalies) == (Answer.YES, ())
    assert {each.rule for each in verdict.rules if not each.checked} == set(), "each rule has something to judge"
    later = [event._replace(t_ms=event.t_ms + 1e12) for event in numbered(clean())]
    assert judge(later).span_ms == verdict.span_ms == 251
    [messages] = verdict.messages
    assert (messages.sent, messages.received, messages.lost, messages.duplicates) == (30, 30, 0, 0)


def test_a_message_of_a_failed_send_may_come_and_a_failed_listener_may_get_it_again() -> None:
    story = clean()
    plant_failed_and_stored(story)
    assert judge(numbered(story)).answer is Answer.YES


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.removeprefix("plant_"))
def test_each_planted_anomaly_is_found_and_named_and_nothing_else_is(plant: Callable[[Story], None]) -> None:
    story = clean()
    plant(story)
    verdict = judge(numbered(story))
    assert {anomaly.rule for anomaly in verdict.anomalies} == {PLANTED[plant]}
    assert verdict.answer is Answer.NO
    events = numbered(story)
    assert verdict.of(PLANTED[plant]).found >= 1
    for anomaly in verdict.anomalies:
        assert 1 <= len(anomaly.witness) <= MAX_WITNESS
        assert all(event in events for event in anomaly.witness if event.seq >= 0)
        assert anomaly.text.endswith(".")


def test_two_owners_are_judged_by_the_declared_window() -> None:
    events = [event for event in numbered(two_owners()) if event.seq >= 0]
    limits = replace(LIMITS, complete=True, double_owner_ms=50)
    [anomaly] = judge(events, limits).anomalies
    assert anomaly.rule is Rule.DOUBLE_OWNER
    assert anomaly.text == "c1 and c2 owned t@b:0 at the same time for 82 ms."
    assert judge(events, replace(limits, double_owner_ms=100)).anomalies == ()


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


def test_a_queue_that_nobody_ever_owned_is_an_orphan() -> None:
    story = clean()
    story.tell(300, "b", EventKind.ROUTE_CHANGED, group="", topic="t", broker="b", n=3)
    story.client(40_000, "c1", EventKind.REBALANCE_BEGIN, detail="TIMER")
    [anomaly] = [each for each in judge(numbered(story)).anomalies if each.rule is Rule.ORPHAN]
    assert "t@b:2 never had an owner" in anomaly.text


def test_a_node_that_sent_its_events_twice_is_judged_once() -> None:
    events = numbered(clean())
    verdict = judge([*events, *(event for event in events if event.seq >= 0)])
    assert verdict.answer is Answer.YES
    assert verdict.lost_events == 0


def test_missing_events_cast_doubt_on_what_rests_on_them() -> None:
    story = clean()
    plant, _ = next(iter(PLANTED.items()))
    plant(story)
    events = [event for event in numbered(story) if not (event.node == "b" and event.kind == "NOTIFY_SENT")]
    verdict = judge(events)
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.of(Rule.DOUBLE_OWNER).doubtful == 1
    assert "events of b are missing" in verdict.anomalies[0].doubt
    assert judge(events, replace(LIMITS, complete=True)).answer is Answer.NO, "its owner knows that none is missing"
