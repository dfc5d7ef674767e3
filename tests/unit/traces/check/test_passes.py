from __future__ import annotations

from dataclasses import replace

from model.events import EventKind
from tests.unit.traces.check.histories import (
    LIMITS,
    checkers,
    clean,
    numbered,
    plant_silence,
    plant_stale_view,
    plant_thundering,
)
from tests.unit.traces.figures.group_events import Story
from traces.check.verdict import Rule


def test_a_change_that_a_broker_notifies_no_one_names_the_broker_and_the_member() -> None:
    story = clean()
    plant_silence(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert anomaly.text.startswith("The group changed at broker b (c3 left), and its members were not notified")


def test_a_broker_that_goes_down_has_no_notification_due() -> None:
    story = clean()
    plant_silence(story)
    story.tell(500, "b", EventKind.BROKER_DOWN, group="", broker="b", detail="stop")
    assert checkers(numbered(story)).anomalies == ()


def test_a_member_that_consumes_and_runs_no_pass_has_an_old_view() -> None:
    story = clean()
    plant_stale_view(story)
    story.events = [event for event in story.events if event.t_ms < 60_000]
    story.queue(50_000, "c1", EventKind.MESSAGES_HANDED_OUT, version=4, offset=31, n=1)
    [anomaly] = checkers(numbered(story)).anomalies
    assert anomaly.rule is Rule.STALE_VIEW
    assert "it had run no pass since" in anomaly.text


def test_passes_for_nothing_are_allowed_up_to_the_limit() -> None:
    story = clean()
    plant_thundering(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert "have no group version" in anomaly.text
    assert checkers(numbered(story), replace(LIMITS, needless_passes=30)).anomalies == ()


def test_passes_at_the_begin_of_the_minute_are_explained_by_the_change_just_before_it() -> None:
    story = Story()
    members = [f"c{number}" for number in range(30)]
    for client in members:
        planned(story, 5, client)
    for t_ms, new_member in ((1_000, "x"), (61_000, "y")):
        story.tell(t_ms, "b", EventKind.MEMBER_JOIN, broker="b", client=new_member, version=t_ms, n=31)
        story.tell(t_ms, "b", EventKind.NOTIFY_SENT, broker="b", version=t_ms, n=31)
        for client in members:
            planned(story, t_ms + 5, client)
    assert checkers(numbered(story)).anomalies == ()


def planned(story: Story, t_ms: float, client: str) -> None:
    """A pass that changed nothing, with the list of another broker, which has not changed."""
    story.client(t_ms, client, EventKind.NOTIFY_RECEIVED, version=7)
    story.client(t_ms, client, EventKind.REBALANCE_BEGIN, detail="NOTIFY")
    story.client(t_ms, client, EventKind.REBALANCE_END, version=7, n=0, detail="NOTIFY balanced")
