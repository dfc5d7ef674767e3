from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.errors import ConfigError
from model.event_log import encode_events
from model.events import Event, EventKind
from model.missing_trace import missing_parts
from pipeline.report.folder import PAGE, TABLES, write_notes, write_page, write_report_without_spark
from traces.figures.clocks.clocks import ClockFault


def test_a_short_trace_becomes_a_page_and_its_tables(tmp_path: Path) -> None:
    of_queue: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue_id": 0, "client": "c1", "version": 1}
    events = [
        Event(1_000, "c1", 1, EventKind.CLIENT_START.value, "c1/1", "g", client="c1"),
        Event(1_005, "c1", 2, EventKind.QUEUE_ACQUIRED.value, "c1/1", offset=0, **of_queue),
    ]
    (tmp_path / "trace.jsonl").write_bytes(encode_events(events) + b"{")
    notes: list[str] = []
    report = write_report_without_spark([tmp_path / "trace.jsonl"], tmp_path / "out", progress=notes.append)
    assert (report.events, report.nodes, [one.totals.moves for one in report.groups]) == (2, 1, [1])
    assert "skipped lines of the trace that are not events: 1" in notes
    assert "Rebalances of g" in (tmp_path / "out" / PAGE).read_text(encoding="utf-8")
    assert (tmp_path / "out" / TABLES / "ownership").is_dir()
    write_notes(tmp_path / "out", "the part on b is missing", [ClockFault(node="c1", ahead_ms=2_000)])
    noted = write_page(tmp_path / "out")
    assert noted.missing == "the part on b is missing"
    assert noted.clocks == ("The clock of c1 is 2 s ahead: its times are corrected.",)
    text = (tmp_path / "out" / PAGE).read_text(encoding="utf-8")
    assert "incomplete: the part on b is missing." in text
    assert noted.clocks[0] in text
    again = write_report_without_spark([tmp_path / "trace.jsonl"], tmp_path / "out")
    assert (again.missing, again.clocks) == (str(missing_parts(["b"])), ()), "b has no event of its own"


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_bytes(b"{}\n")
    with pytest.raises(ConfigError, match="a report cannot be written to"):
        write_report_without_spark([tmp_path / "trace.jsonl"], tmp_path / "trace.jsonl" / "out")
