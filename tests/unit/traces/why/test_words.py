from __future__ import annotations

import pytest

from model.events import Event, EventKind
from tests.unit.traces.why.stories import handed_over, moves_of
from traces.why.words import clock, describe_change, format_span, move_text, stage_text

pytestmark = pytest.mark.walk


def test_a_move_is_reported_in_a_sentence_and_a_lost_notification_in_one_more() -> None:
    first, move = moves_of(handed_over())
    assert move_text(first) == "t@b:0 went to c1 for the first time because c1 started."
    assert move_text(move) == "t@b:0 went to c2 from c1 because c2 started."
    *_, rescued = moves_of(handed_over(notified=False))
    assert move_text(rescued).endswith("sent and never arrived: the member's timer detected the change.")


def test_every_stage_says_who_did_what() -> None:
    for move in moves_of(handed_over()):
        for stage in move.stages:
            assert any(name in stage_text(stage) for name in ("c1", "c2", "b "))


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_has_words(kind: EventKind) -> None:
    said = describe_change(Event(0, "n", 1, kind, client="c", detail="x"))
    assert said
    assert "_" not in said


def test_a_connection_that_a_client_lost_is_not_a_broker_that_went_down() -> None:
    down = Event(0, "b", 1, EventKind.BROKER_DOWN, broker="b", detail="stop")
    assert describe_change(down) == "broker b went down"
    lost = Event(0, "c", 1, EventKind.BROKER_DOWN, broker="b", client="c", detail="b:1")
    assert describe_change(lost) == "c lost its connection to broker b"
    assert describe_change(None) == "an event happened that is not in the trace"


def test_times_are_short() -> None:
    assert clock(3_723_004) == "01:02:03.004"
    assert [format_span(ms) for ms in (0.04, 12.3, 12_345)] == ["0.0 ms", "12 ms", "12.3 s"]
