"""`rlab report` without Spark: what it refuses, and what it says. The report itself: tests/spark/test_report.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.trace.report import print_report, report_document
from pipeline.report.data import read_report
from tests.unit.pipeline.report.report_tables import write


def test_a_trace_that_is_not_there_is_one_line_before_spark_starts(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path / "gone.jsonl"), "--out", str(tmp_path / "out")])
    assert (done.exit_code, done.stderr) == (2, f"error: there is no trace {tmp_path / 'gone.jsonl'}\n")
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_does_not_answer_is_one_line_before_spark_starts(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", "--namesrv", "127.0.0.1:1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: no name server answers")


def test_a_report_is_reported_in_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = read_report(write(tmp_path / "tables", group="g"))
    print_report(report, tmp_path)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("group g: The group rebalanced 2 times")
    assert said[0].endswith(
        "The group missed 26 messages that are damaged or missing and 5 messages that were deleted before it read them."
    )
    assert said[1:3] == [
        "producer group bank: 1 half message, 1 committed, 0 rolled back",
        "producer group shop<b>: 9 half messages, 5 committed, 2 rolled back, 4 checks, 1 never ended",
    ]
    assert said[3] == "injected fault: cut client=<c1>, at b, from 1.5 s to 2.5 s"
    assert said[4] == "26 stored messages can no longer be read: files of brokers are damaged or missing"
    assert said[5] == f"report: {tmp_path / 'index.html'}"


def test_the_document_holds_the_counts(tmp_path: Path) -> None:
    document = report_document(read_report(write(tmp_path / "tables")))
    assert (document["events"], document["lost_events"], document["span_ms"]) == (20, 4, 9_000)
    groups = document["groups"]
    assert isinstance(groups, list)
    assert [(group["moves"], group["handed_out"]) for group in groups] == [(3, 112)]
    assert [row["half"] for row in document["transactions"]] == [1, 9]  # type: ignore[attr-defined]
    assert [row["cause"] for row in document["faults"]] == ["b/7"]  # type: ignore[attr-defined]  # the document is typed as objects
    assert (document["damaged_messages"], groups[0]["missed"]) == (26, {"damaged": 26, "deleted": 5})
