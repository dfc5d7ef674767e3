from __future__ import annotations

from collections.abc import Callable

import pytest

from model.events import Event
from model.limits import RUN_SEQS
from model.message_queue import MessageQueue
from tests.unit.traces.check.histories import LIMITS, checkers, clean, numbered
from tests.unit.traces.figures.group_events import E, Story
from traces.check.check import HistoryCheck
from traces.check.ledger import SentMessage, dispatched_line
from traces.check.verdict import Answer, Rule, Verdict
from traces.figures.clocks.clocks import RIGHT_CLOCKS, describe_offset, find_clocks
from traces.figures.records import order_of

DAY_MS = 86_400_000.0
TRUE = numbered(clean())
IDS = [(event.node, event.seq, event.kind, event.offset, event.n) for event in TRUE]


def with_clock(node: str, ahead_ms: Callable[[float], float]) -> list[Event]:
    return [event._replace(t_ms=event.t_ms + ahead_ms(event.t_ms)) if event.node == node else event for event in TRUE]


def test_a_trace_of_right_clocks_is_left_as_it_is() -> None:
    clocks = find_clocks(TRUE)
    assert clocks.are_right
    assert (clocks.faults, clocks.unknown) == ((), "")
    assert all(clocks.correct(event) is event for event in TRUE)


@pytest.mark.parametrize("node", ["b", "c1", "c2"])
@pytest.mark.parametrize("ahead_ms", [600.0, 2_000.0, -1_500.0, DAY_MS, -DAY_MS])
def test_a_constant_offset_is_corrected_and_the_verdict_stays_yes(node: str, ahead_ms: float) -> None:
    wrong = with_clock(node, lambda t_ms: ahead_ms)
    clocks = find_clocks(wrong)
    right = [clocks.correct(event) for event in wrong]
    # Nobody but the other two nodes says which clock is right: here all times are those of these two.
    assert max(abs(one.t_ms - other.t_ms) for one, other in zip(right, TRUE, strict=True)) < 10
    assert clocks.unknown == ""
    assert [(fault.node, fault.is_corrected) for fault in clocks.faults] == [(node, True)] * (abs(ahead_ms) >= 1_000)
    assert checkers(right).answer is Answer.YES
    assert {rule.answer for rule in judged(wrong).rules} == {rule.answer for rule in judged(TRUE).rules}


def test_without_a_correction_a_clock_that_is_ahead_accuses_a_faultless_group() -> None:
    assert checkers(with_clock("c1", lambda t_ms: 2_000.0)).answer is Answer.NO


def test_a_clock_that_is_set_is_corrected_and_named() -> None:
    wrong = with_clock("c1", lambda t_ms: 0.0 if t_ms < 180 else -60_000.0)
    clocks = find_clocks(wrong)
    right = sorted((clocks.correct(event) for event in wrong), key=order_of)
    assert checkers(right).answer is Answer.YES
    [fault] = clocks.faults
    assert (fault.node, fault.is_set) == ("c1", True)
    assert str(fault) == "the clock of c1 was 60 s behind"


def test_a_broker_that_is_set_forward_accuses_no_member_of_a_long_pause() -> None:
    """As many clocks agree with the broker as with c1, which would have been set back in a pause of that length."""
    wrong = with_clock("b", lambda t_ms: 200_000.0 * (t_ms >= 110))
    assert [str(fault) for fault in find_clocks(wrong).faults] == ["the clock of b was 200 s ahead"]
    assert Answer.NO not in {rule.answer for rule in judged(wrong).rules}


def test_no_event_is_before_its_reason_or_before_an_earlier_one_of_its_node() -> None:
    wrong = with_clock("c1", lambda t_ms: 3.0 * DAY_MS + t_ms / 10)
    clocks = find_clocks(wrong)
    right = sorted((clocks.correct(event) for event in wrong), key=order_of)
    for node in ("b", "c1", "c2"):
        seqs = [event.seq for event in right if event.node == node]
        assert seqs == sorted(seqs)
    at = {(event.kind, event.client, event.version): place for place, event in enumerate(right)}
    for event in right:
        if event.kind == E.QUEUE_ACQUIRED:
            assert at[E.LOCK_GRANTED, event.client, event.version] < at[event.kind, event.client, event.version]
        if event.kind == E.QUEUE_RELEASED:
            assert at[E.QUEUE_DROPPED, event.client, event.version] < at[event.kind, event.client, event.version]


def test_an_event_that_was_not_read_is_corrected_as_its_neighbours_are() -> None:
    wrong = with_clock("c2", lambda t_ms: 5_000.0)
    clocks = find_clocks([event for event in wrong if event.kind != E.MESSAGES_HANDED_OUT])
    [handed_out] = [event for event in wrong if (event.kind, event.node) == (E.MESSAGES_HANDED_OUT, "c2")]
    assert abs(clocks.correct(handed_out).t_ms - (handed_out.t_ms - 5_000)) < 10


def test_a_producer_that_no_event_is_about_does_not_make_the_history_a_day_longer() -> None:
    producer = Event(200.0 + DAY_MS, "p", 1, E.CLIENT_START, "p/1", "producers", client="p")
    wrong = [*with_clock("c1", lambda t_ms: 2_000.0), producer]
    clocks = find_clocks(wrong)
    assert max(clocks.correct(event).t_ms for event in wrong) < 1_000
    assert "the clock of p is 24 h ahead" in map(str, clocks.faults)


def test_a_clock_whose_offset_cannot_be_known_makes_doubt_and_no_answer_certain() -> None:
    """c2 only ever joins: by how much its clock is ahead at most, nothing shows."""
    story = clean()
    story.events = [
        event._replace(t_ms=event.t_ms + 5_000) if event.node == "c2" else event
        for event in story.events
        if event.node != "c2" or event.kind in (E.CLIENT_START, E.REBALANCE_BEGIN)
    ]
    clocks = find_clocks(numbered(story))
    assert clocks.unknown == "the clock of c2 is 5 s ahead"
    [started] = [event for event in numbered(story) if (event.node, event.kind) == ("c2", E.CLIENT_START)]
    assert clocks.uncertainty("c2", clocks.correct(started).t_ms) == clocks.unknown
    assert clocks.uncertainty("c1", 100.0) == ""


def test_lines_of_a_ledger_and_right_clocks_say_nothing_of_a_clock() -> None:
    line = next(event for event in TRUE if event.seq < 0)
    assert find_clocks([line]).correct(line) is line
    assert RIGHT_CLOCKS.uncertainty("c1", 0.0) == ""


@pytest.mark.parametrize(
    ("ahead_ms", "text"),
    [(2_000.0, "2 s ahead"), (-1_540.0, "1.5 s behind"), (60_000.0, "60 s ahead"), (DAY_MS, "24 h ahead")],
)
def test_how_far_a_clock_is_off_is_said_in_words(ahead_ms: float, text: str) -> None:
    assert describe_offset(ahead_ms) == text


def test_the_runs_of_a_broker_follow_each_other_though_its_clock_is_set_back_in_between() -> None:
    events = [*TRUE]
    for seq, t_ms in ((1, 300.0), (2, 310.0)):
        place = {"topic": "t", "broker": "b", "queue_id": 0, "client": "c1"}
        kind = E.BROKER_UP if seq == 1 else E.OFFSET_COMMITTED
        number = 1_000_000_000 + seq
        events.append(Event(t_ms - 5_000, "b", number, kind, f"b/{number}", "g", offset=40, n=0, **place))  # type: ignore[arg-type]
    clocks = find_clocks(events)
    of_broker = sorted((clocks.correct(event) for event in events if event.node == "b"), key=order_of)
    assert [event.seq for event in of_broker] == sorted(event.seq for event in of_broker)


def two_runs() -> list[Event]:
    """Those of `clean`, whose last ten messages come a second later; then b is started again, and grants one lease."""
    late = [event._replace(t_ms=event.t_ms + 1_000 * (event.t_ms > 209)) for event in clean().events]
    story = Story()
    story.events += late
    story.tell(1_300, "b", E.BROKER_UP, broker="b")
    lease = {"queue_id": 1, "version": 9, "offset": 0}
    for t_ms, kind in ((1_310, E.LOCK_GRANTED), (1_311, E.QUEUE_ACQUIRED), (1_320, E.QUEUE_DROPPED)):
        story.queue(t_ms, "c1", kind, **lease)  # type: ignore[arg-type]
    place = {"topic": "t", "broker": "b", "queue_id": 1, "client": "c1", "version": 9}
    story.tell(1_321, "b", E.QUEUE_RELEASED, detail="unlock", **place)  # type: ignore[arg-type]
    return [
        event._replace(seq=event.seq + RUN_SEQS) if event.node == "b" and event.t_ms >= 1_300 else event
        for event in numbered(story)
    ]


def test_a_clock_that_was_set_at_the_end_of_a_run_accuses_no_one_if_the_next_run_shows_it() -> None:
    """The commit of 1,251 ms has the time 251 ms: no pair shows that, and the messages came behind it."""
    right = two_runs()
    assert not judged(right).anomalies

    def ahead_ms(event: Event) -> float:
        return (event.node == "b") * (12_000 - 1_000 * (event.t_ms > 1_000))

    found = judged([event._replace(t_ms=event.t_ms + ahead_ms(event)) for event in right]).anomalies
    assert {anomaly.doubt for anomaly in found if anomaly.rule is Rule.DUPLICATE} == {"the clock of b was 12 s ahead"}
    assert all(anomaly.doubt for anomaly in found)


def judged(events: list[Event]) -> Verdict:
    clocks = find_clocks(events)
    check = HistoryCheck(LIMITS)
    check.use(clocks)
    for event in sorted(map(clocks.correct, events), key=order_of):
        check.feed(event)
    return check.finish()


@pytest.mark.parametrize(
    ("wrong", "at_ms", "certain"),
    [
        ("b", 260.0, {Rule.NONMONOTONIC_POLL}),  # a commit of 9 ms before may have been later
        ("b", 900.0, {Rule.NONMONOTONIC_POLL, Rule.DUPLICATE}),
        ("c1", 260.0, {Rule.DUPLICATE}),  # c1 may have acquired the queue again
        ("c1", 900.0, {Rule.DUPLICATE}),
        ("c2", 260.0, {Rule.NONMONOTONIC_POLL, Rule.DUPLICATE}),
    ],
)
def test_what_compares_a_ledger_with_a_corrected_clock_is_in_doubt_where_their_order_is_not_known(
    wrong: str, at_ms: float, certain: set[Rule]
) -> None:
    story = clean()
    story.events.append(
        dispatched_line(at_ms, "g", "c1", SentMessage(0, 5), MessageQueue("t", "b", 0), 5)
    )  # committed long before
    both = {Rule.NONMONOTONIC_POLL, Rule.DUPLICATE}
    right = numbered(story)
    assert {anomaly.rule for anomaly in judged(right).anomalies if not anomaly.doubt} == both
    found = judged([event._replace(t_ms=event.t_ms + 60_000 * (event.node == wrong)) for event in right]).anomalies
    assert {anomaly.rule for anomaly in found if not anomaly.doubt} == certain
    doubts = {anomaly.rule: anomaly.doubt for anomaly in found if anomaly.doubt}
    assert doubts == dict.fromkeys(both - certain, f"the clock of {wrong} is 60 s ahead")


def test_a_line_of_a_ledger_shortly_before_a_reset_is_in_doubt_if_the_clock_of_the_broker_was_corrected() -> None:
    story = clean()
    story.events.append(dispatched_line(900.0, "g", "c1", SentMessage(0, 5), MessageQueue("t", "b", 0), 5))
    story.queue(910, "b", E.OFFSET_RESET, "", offset=5)
    events = numbered(story)
    rules = {anomaly.rule for anomaly in judged(events).anomalies if not anomaly.doubt}
    assert Rule.DUPLICATE in rules
    wrong = judged([event._replace(t_ms=event.t_ms + 60_000 * (event.node == "b")) for event in events])
    [duplicate] = [anomaly for anomaly in wrong.anomalies if anomaly.rule is Rule.DUPLICATE]
    assert duplicate.doubt == "the clock of b is 60 s ahead"
