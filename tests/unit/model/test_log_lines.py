from __future__ import annotations

import logging

import pytest

from model.log_lines import LogLines

logger = logging.getLogger(__name__)


def test_so_many_lines_are_written_and_the_next_one_after_the_time_says_how_many_were_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = LogLines(2, per_s=60.0)
    written = [lines.warning(logger, now, "%s %d", "n", now) for now in (0.0, 1.0, 2.0, 59.0, 60.0, 61.0, 62.0, 120.0)]
    assert written == [True, True, False, False, True, True, False, True]
    assert [record.getMessage() for record in caplog.records] == [
        *("n 0", "n 1", "n 60 (2 such lines were left out)", "n 61"),
        "n 120 (1 such line was left out)",
    ]


def test_whether_there_is_room_can_be_asked_before_a_text_is_made() -> None:
    lines = LogLines(1, per_s=60.0)
    assert lines.has_room(0.0)
    lines.info(logger, 0.0, "first")
    assert (lines.has_room(59.0), lines.has_room(60.0)) == (False, True)


def test_a_line_is_that_of_the_caller_with_the_traceback_of_its_error(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("broken")
    lines = LogLines()
    lines.failure(logger, 0.0, "failed", error=error)
    lines.warning(logger, 0.0, "also")
    with caplog.at_level(logging.INFO, logger=__name__):
        lines.info(logger, 0.0, "and")
    assert [(record.levelname, record.filename) for record in caplog.records] == [
        *(("ERROR", "test_log_lines.py"), ("WARNING", "test_log_lines.py"), ("INFO", "test_log_lines.py"))
    ]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error
