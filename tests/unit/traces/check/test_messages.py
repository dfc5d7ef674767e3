from __future__ import annotations

from dataclasses import replace

from model.events import Event
from model.message_queue import MessageQueue
from tests.unit.traces.check.histories import checkers
from traces.check.ledger import SentMessage, dispatched_line, ended_line, sent_line
from traces.check.limits import HistoryLimits
from traces.check.verdict import Answer, Rule

QUEUE = MessageQueue("t", "b", 0)
COMPLETE = HistoryLimits(complete=True, all_consumed=True)


def given(t_ms: float, number: int, offset: int, group: str = "g") -> list[Event]:
    message = SentMessage(0, number)
    return [
        dispatched_line(t_ms, group, "c", message, QUEUE, offset),
        ended_line(t_ms, group, "c", message, QUEUE, offset),
    ]


def test_a_message_that_was_stored_twice_and_processed_twice_is_counted_and_no_anomaly() -> None:
    verdict = checkers([sent_line(1, SentMessage(0, 0), QUEUE, 1), *given(2, 0, 0), *given(3, 0, 1)], COMPLETE)
    assert verdict.answer is Answer.YES
    assert [(each.received, each.duplicates) for each in verdict.messages] == [(1, 1)]


def test_a_message_that_waits_is_lost_only_if_the_history_goes_on_until_nothing_is_left() -> None:
    lines = [sent_line(1, SentMessage(0, 0), QUEUE, 0), sent_line(1, SentMessage(0, 1), QUEUE, 1), *given(2, 0, 0)]
    assert checkers(lines, replace(COMPLETE, all_consumed=False)).answer is Answer.YES
    [anomaly] = checkers(lines, COMPLETE).anomalies
    assert anomaly.rule is Rule.LOST_WRITE
    assert anomaly.text.startswith(
        "message 1 of lane 0 (t@b:0, offset 1) was acknowledged to its producer, and g never"
    )


def test_each_group_has_to_get_each_message_also_one_that_is_seen_late() -> None:
    lines = [sent_line(1, SentMessage(0, n), QUEUE, n) for n in range(2)]
    verdict = checkers([*lines, *given(2, 0, 0), *given(2, 1, 1), *given(3, 0, 0, "late")], COMPLETE)
    assert [anomaly.group for anomaly in verdict.anomalies] == ["late"]


def test_a_group_that_passes_an_acknowledged_message_skips_it_whether_it_was_acknowledged_before_or_after() -> None:
    before = [sent_line(n, SentMessage(0, n), QUEUE, n) for n in range(3)]
    [anomaly] = checkers([*before, *given(5, 0, 0), *given(6, 2, 2), *given(7, 1, 1)], COMPLETE).anomalies
    assert anomaly.rule is Rule.POLL_SKIP
    late = [before[0], before[2], *given(5, 0, 0), *given(6, 2, 2), before[1]._replace(t_ms=6.5), *given(7, 1, 1)]
    assert [each.rule for each in checkers(late, COMPLETE).anomalies] == [Rule.POLL_SKIP]


def test_an_offset_that_no_one_acknowledged_may_be_passed() -> None:
    lines = [sent_line(n, SentMessage(0, n), QUEUE, 2 * n) for n in range(2)]
    assert checkers([*lines, *given(5, 0, 0), *given(6, 1, 2)], COMPLETE).answer is Answer.YES


def test_sends_of_one_lane_that_a_queue_stores_in_another_order_are_out_of_order() -> None:
    lines = [
        sent_line(1, SentMessage(0, 0), QUEUE, 1),
        sent_line(2, SentMessage(0, 1), QUEUE, 0),
        *given(3, 1, 0),
        *given(4, 0, 1),
    ]
    assert [each.rule for each in checkers(lines, COMPLETE).anomalies] == [Rule.OUT_OF_ORDER]
