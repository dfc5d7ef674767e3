from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.leases.offset_out_of_range import REPORT_AGAIN_S, OffsetOutOfRangeReporter
from broker.store.read_result import ReadResult, ReadStatus
from model.event_log import EventLog
from model.events import Event, EventKind
from model.limits import LINES_AT_ONCE, MAX_REPORTED_MOVES


def moves() -> tuple[OffsetOutOfRangeReporter, list[Event]]:
    events: list[Event] = []
    return OffsetOutOfRangeReporter("broker-a", EventLog("broker-a", lambda: 0.0, sink=events.append)), events


def pull(offset: int, group: str = "g", queue_id: int = 0) -> dict[str, Any]:
    return {"group": group, "topic": "t", "queue_id": queue_id, "offset": offset, "client_id": "c1"}


def too_small(low: int) -> ReadResult:
    return ReadResult(ReadStatus.OFFSET_TOO_SMALL, b"", 0, low, low, 100)


def test_a_move_says_who_skipped_how_many_messages_of_which_queue(caplog: pytest.LogCaptureFixture) -> None:
    reported, events = moves()
    reported.cause = "broker-a/77"
    with caplog.at_level(logging.WARNING):
        reported.record(pull(5), too_small(12), 0.0)
    [event] = events
    assert event.kind == EventKind.OFFSET_MOVED
    assert (event.group, event.topic, event.queue_id, event.client) == ("g", "t", 0, "c1")
    assert (event.offset, event.n, event.detail, event.cause) == (12, 7, "deleted", "broker-a/77")
    assert "group 'g' is behind the deleted messages on t:0: it continues at 12, not 5, and misses 7" in caplog.text


def test_an_offset_beyond_the_end_is_reported_and_skips_nothing() -> None:
    reported, events = moves()
    reported.cause = "broker-a/77"
    reported.record(pull(500), ReadResult(ReadStatus.OFFSET_TOO_BIG, b"", 0, 100, 12, 100), 0.0)
    [event] = events
    assert (event.offset, event.n, event.detail, event.cause) == (100, 0, "beyond the end", "broker-a/1")


def test_one_move_is_reported_once_however_often_it_is_asked_for() -> None:
    reported, events = moves()
    for moment in range(30):
        reported.record(pull(5), too_small(12), float(moment))
    assert len(events) == 1


def test_each_group_and_queue_and_each_further_move_is_reported() -> None:
    reported, events = moves()
    for header, low in [(pull(5), 12), (pull(5, "h"), 12), (pull(5, queue_id=1), 12), (pull(12), 20), (pull(5), 20)]:
        reported.record(header, too_small(low), 0.0)
    assert [event.n for event in events] == [7, 7, 7, 8, 15]


def test_a_reader_that_was_put_back_later_is_reported_of_again() -> None:
    reported, events = moves()
    for moment in (0.0, REPORT_AGAIN_S - 1, REPORT_AGAIN_S, REPORT_AGAIN_S + 1):
        reported.record(pull(5), too_small(12), moment)
    assert len(events) == 2


def test_what_was_reported_is_bounded_and_the_oldest_is_reported_again() -> None:
    reported, events = moves()
    for queue_id in range(MAX_REPORTED_MOVES + 1):
        reported.record(pull(5, queue_id=queue_id), too_small(12), 0.0)
    events.clear()
    reported.record(pull(5, queue_id=1), too_small(12), 0.0)
    assert not events
    reported.record(pull(5, queue_id=0), too_small(12), 0.0)
    assert len(events) == 1


def test_a_reader_that_asks_for_another_offset_each_time_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    reported, events = moves()
    for offset in range(5 * LINES_AT_ONCE):
        reported.record(pull(500 + offset), ReadResult(ReadStatus.OFFSET_TOO_BIG, b"", 0, 100, 12, 100), 0.0)
    assert (len(caplog.records), len(events)) == (LINES_AT_ONCE, 5 * LINES_AT_ONCE)
