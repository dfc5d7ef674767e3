from __future__ import annotations

from dataclasses import replace

from figures.history.verdict import Rule
from model.events import EventKind
from model.limits import RUN_SEQS
from tests.unit.figures.history.histories import (
    LIMITS,
    clean,
    judge,
    numbered,
    plant_double_owner,
    plant_flap,
    plant_orphan,
)


def test_a_lease_that_a_broker_grants_twice_names_both_members_and_shows_both_grants() -> None:
    story = clean()
    plant_double_owner(story)
    [anomaly] = judge(numbered(story)).anomalies
    assert anomaly.text == "Broker b granted the lease of t@b:1 to c2 while c1 held it."
    assert [event.client for event in anomaly.witness] == ["c1", "c2"]


def test_an_orphan_says_for_how_long_and_shows_how_its_last_owner_ended() -> None:
    story = clean()
    plant_orphan(story)
    [anomaly] = judge(numbered(story)).anomalies
    assert anomaly.text == "t@b:0 has had no owner for 39.7 s, and has none at the end."
    assert EventKind.QUEUE_DROPPED in [event.kind for event in anomaly.witness]
    assert judge(numbered(story), replace(LIMITS, orphan_ms=60_000)).anomalies == ()


def test_two_processes_with_one_client_id_are_two_owners() -> None:
    events = numbered(clean())
    [*_, last] = [event for event in events if event.kind == EventKind.MESSAGES_HANDED_OUT]
    other = last._replace(t_ms=260, seq=7 * RUN_SEQS + 1)
    [anomaly] = judge([*events, other], replace(LIMITS, complete=True)).anomalies
    assert anomaly.rule is Rule.DOUBLE_OWNER
    assert "Two processes with the client id c1" in anomaly.text


def test_a_flap_names_the_members_that_undo_each_other() -> None:
    story = clean()
    plant_flap(story)
    [anomaly] = judge(numbered(story)).anomalies
    assert "between c9, c1" in anomaly.text
    assert sum(event.kind == EventKind.QUEUE_ACQUIRED for event in anomaly.witness) == LIMITS.flap_moves
    assert judge(numbered(story), replace(LIMITS, flap_ms=2_000)).anomalies == ()
