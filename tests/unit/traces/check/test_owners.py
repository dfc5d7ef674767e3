from __future__ import annotations

from dataclasses import replace

import pytest

from model.events import EventKind
from model.limits import RUN_SEQS
from tests.unit.traces.check.histories import (
    LIMITS,
    checkers,
    clean,
    numbered,
    plant_double_owner,
    plant_flap,
    plant_orphan,
    plant_regained,
)
from traces.check.verdict import Rule


def test_a_lease_that_a_broker_grants_twice_names_both_members_and_shows_both_grants() -> None:
    story = clean()
    plant_double_owner(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert anomaly.text == "Broker b granted the lease of t@b:1 to c2 while c1 held it."
    assert [event.client for event in anomaly.witness] == ["c1", "c2"]


def test_an_orphan_says_for_how_long_and_shows_how_its_last_owner_ended() -> None:
    story = clean()
    plant_orphan(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert anomaly.text == "t@b:0 has had no owner for 39.7 s, and has none at the end."
    assert EventKind.QUEUE_DROPPED in [event.kind for event in anomaly.witness]
    assert checkers(numbered(story), replace(LIMITS, orphan_ms=60_000)).anomalies == ()


def test_a_lease_that_expires_and_is_granted_again_to_the_same_member_leaves_an_orphan() -> None:
    story = clean()
    plant_regained(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert anomaly.text == "t@b:0 had no owner for 40.0 s, until c1 got it."
    assert {EventKind.LOCK_EXPIRED, EventKind.LOCK_GRANTED} <= {event.kind for event in anomaly.witness}
    assert checkers(numbered(story), replace(LIMITS, orphan_ms=60_000)).anomalies == ()


@pytest.mark.parametrize(
    ("fault", "at", "over_ms", "excused"),
    [
        ("partition client=c1", "b", 40_000.0, True),
        ("pause client=c1", "b", 10_400.0, True),
        ("pause client=c1", "b", 10_200.0, False),  # closed for 9.9 s of 40, and 30 are allowed
        ("partition client=c2", "b", 40_000.0, False),
        ("drop client=c1 code=NOTIFY_CONSUMER_IDS_CHANGED", "b", 40_000.0, False),
        ("kill b", "b", 40_000.0, True),
        ("kill d", "d", 40_000.0, False),
    ],
)
def test_the_time_in_which_the_path_to_its_owner_is_closed_on_purpose_makes_no_orphan(
    fault: str, at: str, over_ms: float, excused: bool
) -> None:
    story = clean()
    plant_regained(story)
    client = fault.partition("client=")[2].partition(" ")[0]
    began = story.tell(290, "b", EventKind.FAULT_BEGAN, group="", broker=at, client=client, detail=fault)
    story.tell(over_ms, "b", EventKind.FAULT_HEALED, began, group="", broker=at, client=client, detail=fault)
    assert [each.rule for each in checkers(numbered(story)).anomalies] == [Rule.ORPHAN] * (not excused)


def test_two_processes_with_one_client_id_are_two_owners() -> None:
    events = numbered(clean())
    [*_, last] = [event for event in events if event.kind == EventKind.MESSAGES_HANDED_OUT]
    other = last._replace(t_ms=260, seq=7 * RUN_SEQS + 1)
    [anomaly] = checkers([*events, other], replace(LIMITS, complete=True)).anomalies
    assert anomaly.rule is Rule.DOUBLE_OWNER
    assert "Two processes with the client id c1" in anomaly.text


def test_a_flap_names_the_members_that_undo_each_other() -> None:
    story = clean()
    plant_flap(story)
    [anomaly] = checkers(numbered(story)).anomalies
    assert "between c9, c1" in anomaly.text
    assert sum(event.kind == EventKind.QUEUE_ACQUIRED for event in anomaly.witness) == LIMITS.flap_moves
    assert checkers(numbered(story), replace(LIMITS, flap_ms=2_000)).anomalies == ()
