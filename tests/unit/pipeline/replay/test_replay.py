"""A replay of the golden trace gives what can be worked out on paper, as recorded and under other rules."""

from __future__ import annotations

from collections import defaultdict

import pytest

from client.allocate.registry import BUILT_IN_STRATEGIES
from client.trigger import Trigger
from model.message_queue import MessageQueue
from pipeline.replay.recorded import RecordedGroup, read_recorded
from pipeline.replay.replay import ReplayOutcome, replay
from pipeline.replay.rules import Handover, Rules
from tests.unit.pipeline.replay.golden_trace import TIMEOUT_MS, golden_events

Q0, Q1 = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


@pytest.fixture
def recorded() -> RecordedGroup:
    return read_recorded(golden_events(), "g")


def rules(**different: object) -> Rules:
    given = {"strategy": "AVG", "interval_ms": 20_000.0, "timeout_ms": TIMEOUT_MS, "was_timeout_ms": TIMEOUT_MS}
    return Rules(**{**given, **different})  # type: ignore[arg-type]


def owners(outcome: ReplayOutcome) -> dict[MessageQueue, list[str]]:
    found: dict[MessageQueue, list[str]] = defaultdict(list)
    for move in outcome.moves:
        found[move.queue].append(move.to_client)
    return found


def spans(outcome: ReplayOutcome, queue: MessageQueue) -> list[tuple[str, int, int, str]]:
    return [
        (span.client, round(span.from_ms), round(span.to_ms), span.ended)
        for span in sorted(outcome.spans, key=lambda span: span.from_ms)
        if span.queue == queue
    ]


def test_the_recorded_rules_give_the_recorded_owners_at_the_recorded_times(recorded: RecordedGroup) -> None:
    outcome = replay(recorded, rules())
    assert [tuple(move)[1:] for move in outcome.moves] == [tuple(move)[1:] for move in recorded.moves]
    assert [move.at_ms for move in outcome.moves] == pytest.approx([move.at_ms for move in recorded.moves], abs=0.01)
    assert spans(outcome, Q0) == [("c1", 16, 15000, "silent"), ("c3", 20007, 25000, "open")]
    assert spans(outcome, Q1) == [
        ("c1", 16, 1004, "revoked"),
        ("c2", 1056, 5000, "shutdown"),
        ("c1", 5010, 12004, "revoked"),
        ("c3", 12011, 25000, "open"),
    ]


def test_members_are_alive_until_they_stop_or_fall_silent(recorded: RecordedGroup) -> None:
    alive = [(client, round(since), round(until)) for since, until, client in replay(recorded, rules()).alive]
    assert sorted(alive) == [("c1", 10, 15000), ("c2", 1000, 5000), ("c3", 12000, 25000)]


def test_a_longer_session_timeout_leaves_the_queue_of_the_silent_member_alone_for_longer(
    recorded: RecordedGroup,
) -> None:
    outcome = replay(recorded, rules(timeout_ms=7_000.0))
    assert owners(outcome) == {Q0: ["c1", "c3"], Q1: ["c1", "c2", "c1", "c3"]}
    assert spans(outcome, Q0)[0] == ("c1", 16, 15000, "silent")
    assert spans(outcome, Q0)[1][1] == pytest.approx(22_007, abs=2)
    assert spans(replay(recorded, rules(timeout_ms=11_000.0)), Q0) == [("c1", 16, 15000, "silent")]


def test_members_that_are_reported_nothing_keep_what_others_should_have(recorded: RecordedGroup) -> None:
    # c1 would look again at 20,016, and is silent by then: c2 is refused until it leaves, c3 until c1 is taken out.
    outcome = replay(recorded, rules(notify=False))
    assert owners(outcome) == {Q0: ["c1", "c3"], Q1: ["c1", "c3"]}
    assert next(span[:3] for span in spans(outcome, Q1)) == ("c1", 16, 15000)


def test_members_that_look_often_need_not_be_reported(recorded: RecordedGroup) -> None:
    # The first looks of c1 after the joins at 1,000 and 12,000 ms are a second after the last: at 1,016 ms.
    outcome = replay(recorded, rules(notify=False, interval_ms=1_000.0))
    assert owners(outcome) == {Q0: ["c1", "c3"], Q1: ["c1", "c2", "c1", "c3"]}
    (_, _, given_up, _), (_, taken, _, _) = spans(outcome, Q1)[:2]
    assert 1_016 < given_up < 1_020
    assert given_up < taken


def test_without_leases_the_new_owner_does_not_wait_for_the_old_one(recorded: RecordedGroup) -> None:
    outcome = replay(recorded, rules(handover=Handover.OVERLAP))
    assert owners(outcome) == {Q0: ["c1", "c3"], Q1: ["c1", "c2", "c1", "c3"]}
    assert spans(outcome, Q1)[1] == ("c2", 1007, 5000, "shutdown")
    (first,) = [span for span in outcome.spans if span.queue == Q1 and round(span.to_ms) == 1004]
    assert round(first.drained_ms) == 1050


def test_a_cut_gives_the_lease_back_before_the_listener_is_done(recorded: RecordedGroup) -> None:
    (_, _, given_up, _), (_, taken, _, _) = spans(replay(recorded, rules(handover=Handover.CUT)), Q1)[:2]
    assert given_up == 1004
    assert taken < 1020


@pytest.mark.walk
def test_under_every_strategy_the_last_member_has_everything_at_the_end(recorded: RecordedGroup) -> None:
    for strategy in BUILT_IN_STRATEGIES:
        outcome = replay(recorded, rules(strategy=strategy))
        assert {(span.client, span.queue) for span in outcome.spans if span.ended == "open"} == {("c3", Q0), ("c3", Q1)}


@pytest.mark.walk
@pytest.mark.parametrize("trigger", [trigger for trigger in Trigger if trigger.from_outside])
def test_every_trigger_from_outside_is_taken_from_the_trace(recorded: RecordedGroup, trigger: Trigger) -> None:
    renamed = [event._replace(detail=event.detail.replace("START", trigger)) for event in golden_events()]
    outcome = replay(read_recorded(renamed, "g"), rules())
    assert [tuple(move)[1:] for move in outcome.moves] == [tuple(move)[1:] for move in recorded.moves]
    assert owners(outcome)[Q1] == ["c1", "c2", "c1", "c3"]
