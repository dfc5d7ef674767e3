from __future__ import annotations

import pytest

from tests.unit.traces.check.histories import checkers, clean, numbered, plant_double_owner
from traces.check.check import HistoryCheck
from traces.check.verdict import Rule
from traces.check.words import event_text, headline, rule_condition, rule_text, summary, witness_lines

pytestmark = pytest.mark.walk


def test_every_rule_is_asked_in_words() -> None:
    assert all(rule_condition(rule) for rule in Rule)


def test_a_verdict_is_reported_in_a_sentence() -> None:
    story = clean()
    assert summary(checkers(numbered(story))).startswith("Yes: ")
    plant_double_owner(story)
    verdict = checkers(numbered(story))
    assert summary(verdict).endswith("break double-owner.")
    assert rule_text(verdict.of(Rule.DOUBLE_OWNER)) == "once: two members owned one queue at a time"
    assert rule_text(verdict.of(Rule.ORPHAN)) == ""
    assert "empty" in summary(HistoryCheck().finish())


def test_an_anomaly_is_reported_with_its_events_from_the_first_on() -> None:
    story = clean()
    plant_double_owner(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert headline(anomaly).startswith("double-owner: Broker b granted")
    first, last = witness_lines(anomaly)
    assert first.split()[:5] == ["+0.0", "ms", "b", "LOCK_GRANTED", "t@b:1"]
    assert last.split()[0] == "+255.0"
    assert event_text(anomaly.witness[0]) == "t@b:1 c1 version=2 offset=0 n=0"
