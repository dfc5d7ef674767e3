"""What is read of a trace, from the golden one and from damaged ones."""

from __future__ import annotations

import math

import pytest

from model.errors import ConfigError
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from pipeline.replay.recorded import find_moves, groups_in, in_order, read_recorded
from tests.unit.pipeline.replay.golden_trace import golden_events

Q1 = MessageQueue("t", "b", 1)


def test_changes_are_those_of_one_broker_with_the_topics_of_the_members() -> None:
    recorded = read_recorded(golden_events(), "g")
    assert [(round(c.at_ms), c.version, c.client, c.topics, c.reason) for c in recorded.changes] == [
        (10, 1, "c1", ("t",), ""),
        (1000, 2, "c2", ("t",), ""),
        (5003, 3, "c2", None, "unregister"),
        (12000, 4, "c3", ("t",), ""),
        (20000, 5, "c1", None, "expiry"),
    ]


def test_the_span_of_a_group_is_not_that_of_the_trace() -> None:
    events = golden_events()
    of_group_ms = [event.t_ms for event in events if event.group == "g"]
    before = Event(events[0].t_ms - 3_600_000, "b", 0, EventKind.BROKER_UP, broker="b")
    after = Event(events[-1].t_ms + 900_000, "b", 99_999, EventKind.BROKER_DOWN, broker="b")
    recorded = read_recorded([before, *events, after], "g")
    assert recorded.group_ms == pytest.approx(max(of_group_ms) - min(of_group_ms), abs=1)
    assert recorded.end_ms > 4_500_000


def test_an_expression_with_blanks_is_not_a_topic() -> None:
    events = [e._replace(detail="%RETRY%g=* t=red || blue") if e.detail == "t=*" else e for e in golden_events()]
    assert read_recorded(events, "g").changes[0].topics == ("%RETRY%g", "t")


def test_passes_have_their_triggers_the_version_they_saw_and_when_they_did_what() -> None:
    first, second = read_recorded(golden_events(), "g").passes["c2"]
    assert (first.triggers, first.version, first.balanced) == (frozenset({"START"}), 2, False)
    assert (first.begin_ms, first.end_ms) == (1003.5, 1007)
    assert first.lock_ms == {"b": 1006}
    assert (second.triggers, second.balanced, second.plan_ms) == (frozenset({"LOCK"}), True, None)


def test_a_pass_without_an_end_lasts_for_ever() -> None:
    events = [e for e in golden_events() if not (e.kind == EventKind.REBALANCE_END and e.client == "c2")]
    assert [each.end_ms for each in read_recorded(events, "g").passes["c2"]] == [math.inf, math.inf]


def test_a_pass_that_was_under_way_as_its_member_stopped_was_planned_just_before() -> None:
    start_ms = golden_events()[0].t_ms
    stop = Event(start_ms + 1004.5, "c2", 0, EventKind.CLIENT_STOP, group="g", client="c2")
    first, second = read_recorded([*golden_events(), stop], "g").passes["c2"]
    assert first.plan_ms is not None
    assert 1004.4 < first.plan_ms < 1004.5
    assert second.plan_ms is None


def test_drains_last_from_giving_up_to_the_broker_or_for_ever() -> None:
    recorded = read_recorded(golden_events(), "g")
    assert recorded.drains["c1", Q1] == [(1004, 1050), (12004, 12006)]
    events = [e for e in golden_events() if not (e.kind == EventKind.QUEUE_RELEASED and e.client == "c2")]
    assert read_recorded(events, "g").drains["c2", Q1][0][1] == math.inf


def test_refusals_are_kept_by_member_and_queue() -> None:
    assert read_recorded(golden_events(), "g").refusals == {("c2", Q1): [1006]}


def test_a_member_returns_to_the_broker_that_took_it_out_though_another_one_never_did() -> None:
    def at_c(t_ms: float, kind: EventKind, detail: str) -> Event:
        return Event(golden_events()[0].t_ms + t_ms, "c", 0, kind, group="g", broker="c", client="c1", detail=detail)

    events = golden_events()
    assert read_recorded(events, "g").returns == ()
    events += [at_c(11, EventKind.MEMBER_JOIN, "t=*"), at_c(8_000, EventKind.MEMBER_LEAVE, "expiry")]
    assert read_recorded(events, "g").returns == ()
    events += [at_c(9_000, EventKind.MEMBER_JOIN, "t=*"), at_c(9_500, EventKind.MEMBER_JOIN, "t=red")]
    assert read_recorded(events, "g").returns == ((9_000, "c1"),)


def test_events_of_one_time_keep_their_order() -> None:
    events = [Event(t_ms, "b", n, EventKind.BROKER_UP) for n, t_ms in enumerate((5.0, 7.0, 5.0, 5.0))]
    timed = in_order(events)
    assert [event.seq for _, event in timed] == [0, 2, 3, 1]
    assert [at_ms for at_ms, _ in timed] == sorted({at_ms for at_ms, _ in timed})
    assert timed[2][0] < 0.001


def test_a_grant_to_the_same_member_is_not_a_move() -> None:
    moves = list(find_moves([(1, Q1, "a"), (2, Q1, "a"), (3, Q1, "b")]))
    assert [(move.at_ms, move.from_client, move.to_client) for move in moves] == [(1, "", "a"), (3, "a", "b")]


def test_without_a_timer_that_ran_out_the_interval_is_the_default_one() -> None:
    assert read_recorded(golden_events(), "g").interval_ms == 20_000


def test_a_leave_reports_when_the_member_was_last_received() -> None:
    _, expiry = read_recorded(golden_events(), "g").leaves
    assert (expiry.reason, expiry.last_request_ms, expiry.missed_ms) == ("expiry", 12005, 20000)


def test_what_cannot_be_replayed_is_refused() -> None:
    events = golden_events()
    assert groups_in(events) == ["g"]
    with pytest.raises(ConfigError, match="no member joins group 'other'"):
        read_recorded(events, "other")
    with pytest.raises(ConfigError, match="SYS_TRACE"):
        read_recorded([event for event in events if event.node == "b"], "g")


def test_session_timeouts_are_those_that_members_reported() -> None:
    assert read_recorded(golden_events(), "g").timeout_ms is None
    reported = [
        Event(
            0.0, client, 1, EventKind.CLIENT_START, f"{client}/1", "g", client=client, detail=f"session_timeout_s={s}"
        )
        for client, s in (("c1", "3"), ("c2", "0.5"), ("c3", "3"))
    ]
    recorded = read_recorded([*reported, *golden_events()], "g")
    assert (recorded.timeouts_ms, recorded.timeout_ms) == ({"c1": 3_000.0, "c2": 500.0, "c3": 3_000.0}, 3_000.0)
