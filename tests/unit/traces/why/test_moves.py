from __future__ import annotations

import pytest

from model.events import EventKind
from tests.unit.traces.why.stories import first_owner, handed_over, moves_of
from traces.check.reading import in_order
from traces.why.causes import Discovery
from traces.why.moves import MoveStep, MoveTracker

E = EventKind


def test_a_handover_is_reported_stage_by_stage_from_its_cause_to_the_first_message() -> None:
    first, move = moves_of(handed_over())
    assert (first.from_client, first.owner) == (None, "c1")
    assert (move.from_client, move.owner, move.learned, move.missing) == ("c1", "c2", Discovery.NOTIFIED, ())
    assert move.root is not None
    assert move.root.kind == E.CLIENT_START
    assert [(stage.step, stage.took_ms) for stage in move.stages] == [
        (MoveStep.CHANGE, 0),
        (MoveStep.VERSION, 3),
        (MoveStep.NOTIFY, 1),
        (MoveStep.NOTIFIED, 1),
        (MoveStep.PASS_BEFORE, 1),
        (MoveStep.DROPPED, 1),
        (MoveStep.RELEASED, 2),
        (MoveStep.PASS, 1),
        (MoveStep.LEASE, 1),
        (MoveStep.ACQUIRED, 1),
        (MoveStep.PULL, 1),
        (MoveStep.MESSAGE, 3),
    ]
    assert move.took_ms == 16
    assert move.gap_ms == 6


@pytest.mark.parametrize(("sent", "learned"), [(True, Discovery.LOST), (False, Discovery.SILENT)])
def test_a_lost_notification_is_distinguished_from_one_that_no_one_sent(sent: bool, learned: Discovery) -> None:
    *_, move = moves_of(handed_over(notified=False, sent=sent))
    assert move.learned is learned
    assert move.root is not None
    assert (move.root.kind, move.root.client) == (E.CLIENT_START, "c2")
    assert MoveStep.NOTIFIED not in [stage.step for stage in move.stages]
    assert move.missing == ()


def test_a_member_that_gets_back_what_it_had_makes_no_move() -> None:
    story, began = first_owner()
    story.queue(50, "c1", E.QUEUE_DROPPED, began, version=7, detail="lost")
    story.queue(51, "c1", E.QUEUE_ACQUIRED, began, version=8, offset=0)
    assert len(moves_of(story)) == 1


def test_the_lease_of_a_member_that_died_ends_instead_of_being_released() -> None:
    story, _ = first_owner()
    left = story.tell(300, "b", E.MEMBER_LEAVE, broker="b", client="c1", version=6, n=1, detail="close")
    story.queue(300, "c1", E.LOCK_EXPIRED, left, version=7, offset=0, n=0, detail="close")
    story.client(302, "c2", E.REBALANCE_BEGIN, left, detail="NOTIFY")
    story.queue(303, "c2", E.LOCK_GRANTED, left, version=8, offset=0, n=0)
    story.queue(304, "c2", E.QUEUE_ACQUIRED, left, version=8, offset=0)
    story.queue(305, "c2", E.FIRST_PULL, left, version=8, offset=0)
    *_, move = moves_of(story)
    assert move.missing == ()
    assert [stage.step for stage in move.stages] == [
        MoveStep.CHANGE,
        MoveStep.ENDED,
        MoveStep.PASS,
        MoveStep.LEASE,
        MoveStep.ACQUIRED,
        MoveStep.PULL,
    ]
    assert move.gap_ms == 5


def test_an_owner_that_waits_for_the_first_message_of_an_empty_queue_is_idle_which_is_not_a_part_of_the_move() -> None:
    story, _ = first_owner()
    story.events = [event._replace(n=0) if event.kind == E.LOCK_GRANTED else event for event in story.events]
    story.events[-1] = story.events[-1]._replace(t_ms=60_000.0)
    [move] = moves_of(story)
    assert move.stages[-1].step is MoveStep.PULL
    assert move.took_ms == 5


def test_a_move_under_way_is_reported_as_far_as_it_is_known_and_once_more_when_it_is_over() -> None:
    tracker = MoveTracker("g")
    under_way, reported = [], []
    for event in in_order(first_owner()[0].events):
        reported += [move.stages[-1].step for move in tracker.process(event)]
        under_way.append([move.stages[-1].step for move in tracker.under_way()])
    assert under_way == [[], [], [], [MoveStep.ACQUIRED], [MoveStep.PULL], []]
    assert reported == [MoveStep.MESSAGE]


def test_what_the_trace_lacks_is_named() -> None:
    story = handed_over()
    story.events = [event for event in story.events if event.kind not in (E.QUEUE_RELEASED, E.LOCK_GRANTED)]
    *_, move = moves_of(story)
    assert set(move.missing) == {MoveStep.LEASE, MoveStep.RELEASED}
