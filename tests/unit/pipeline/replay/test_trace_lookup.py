"""What the golden trace says of the same thing, and that it says nothing of what did not happen."""

from __future__ import annotations

import math

import pytest

from client.trigger import Trigger
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from pipeline.replay.recorded import read_recorded
from pipeline.replay.trace_lookup import NEAR_MS, TraceLookup
from tests.unit.pipeline.replay.golden_trace import golden_events

Q0, Q1 = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


@pytest.fixture
def lookup() -> TraceLookup:
    return TraceLookup(read_recorded(golden_events(), "g"))


def test_a_pass_is_the_one_that_begins_soon_and_for_that_reason(lookup: TraceLookup) -> None:
    assert lookup.pass_begin("c2", Trigger.LOCK, 1050) == 1052
    assert lookup.pass_begin("c2", Trigger.LOCK, 1053) == 1052, "a rounding earlier is the same moment"
    assert lookup.pass_begin("c2", Trigger.LOCK, 1054) is None
    assert lookup.pass_begin("c2", Trigger.NOTIFY, 1050) is None
    assert lookup.pass_begin("c2", Trigger.LOCK, 1052 - NEAR_MS - 1) is None
    assert lookup.pass_begin("c2", Trigger.LOCK, 1052 - NEAR_MS - 1, within_ms=200) == 1052
    assert lookup.pass_begin("stranger", Trigger.LOCK, 1050) is None


def test_a_queue_is_drained_when_the_broker_had_it_back(lookup: TraceLookup) -> None:
    assert lookup.drain_end("c1", Q1, 1004) == 1050
    assert lookup.drain_end("c1", Q1, 1100) is None
    assert lookup.drain_end("c2", Q1, 1004) is None


def test_a_queue_that_never_came_back_is_drained_never() -> None:
    events = [e for e in golden_events() if not (e.kind == EventKind.QUEUE_RELEASED and e.client == "c2")]
    assert TraceLookup(read_recorded(events, "g")).drain_end("c2", Q1, 5000) == math.inf


def test_of_two_drops_in_one_moment_it_is_the_nearer_one() -> None:
    lost = Event(golden_events()[0].t_ms + 1003, "c1", 0, EventKind.QUEUE_DROPPED, group="g", detail="lost")
    lost = lost._replace(topic="t", broker="b", queue_id=1, client="c1")
    lookup = TraceLookup(read_recorded([*golden_events(), lost], "g"))
    assert lookup.drain_end("c1", Q1, 1004) == 1050
    assert lookup.drain_end("c1", Q1, 1003) == math.inf


def test_releases_and_refusals_are_known_by_member_queue_and_moment(lookup: TraceLookup) -> None:
    assert lookup.was_released("c1", Q1, 1050)
    assert not lookup.was_released("c1", Q1, 1052)
    assert not lookup.was_released("c2", Q1, 1050)
    assert lookup.was_refused("c2", Q1, 1007)
    assert not lookup.was_refused("c2", Q1, 1054)
    assert not lookup.was_refused("c2", Q0, 1006)


def test_a_member_that_is_back_sees_its_loss_when_it_dropped_the_queue_or_at_once(lookup: TraceLookup) -> None:
    assert lookup.loss_noticed("c1", Q1, 11_990) == 12_004
    assert lookup.loss_noticed("c1", Q1, 11_000) == 11_000
    assert lookup.loss_noticed("c1", Q0, 11_990) == 11_990
