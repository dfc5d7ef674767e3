from __future__ import annotations

from dataclasses import replace

from figures.history.verdict import Rule
from model.events import EventKind
from tests.unit.figures.history.histories import (
    LIMITS,
    clean,
    judge,
    numbered,
    plant_silence,
    plant_stale_view,
    plant_thundering,
)


def test_a_change_that_a_broker_tells_nobody_names_the_broker_and_the_member() -> None:
    story = clean()
    plant_silence(story)
    [anomaly] = judge(numbered(story)).anomalies
    assert anomaly.text.startswith("The group changed at broker b (c3 left), and its members were not notified")


def test_a_broker_that_goes_down_owes_no_notification() -> None:
    story = clean()
    plant_silence(story)
    story.tell(500, "b", EventKind.BROKER_DOWN, group="", broker="b", detail="stop")
    assert judge(numbered(story)).anomalies == ()


def test_a_member_that_consumes_and_runs_no_pass_has_an_old_view() -> None:
    story = clean()
    plant_stale_view(story)
    story.events = [event for event in story.events if event.t_ms < 60_000]
    story.queue(50_000, "c1", EventKind.MESSAGES_HANDED_OUT, version=4, offset=31, n=1)
    [anomaly] = judge(numbered(story)).anomalies
    assert anomaly.rule is Rule.STALE_VIEW
    assert "it has run no pass since" in anomaly.text


def test_passes_for_nothing_are_allowed_up_to_the_limit() -> None:
    story = clean()
    plant_thundering(story)
    [anomaly] = judge(numbered(story)).anomalies
    assert "do not say the group version" in anomaly.text
    assert judge(numbered(story), replace(LIMITS, thundering_passes=30)).anomalies == ()
