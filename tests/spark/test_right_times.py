"""A report of a long trace: its times are right although a clock was wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from model.event_log import encode_events
from pipeline.report.job import write_report
from pipeline.trace.alone import write_arrow_tables as alone_tables
from pipeline.trace.source import read_files
from tests.unit.traces.check.histories import clean, numbered

pytestmark = pytest.mark.spark


def test_tables_have_right_times_although_the_clock_of_a_client_is_a_day_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    right = [event for event in numbered(clean()) if event.seq >= 0]
    wrong = [event._replace(t_ms=event.t_ms + 86_400_000 * (event.node == "c1")) for event in right]
    (tmp_path / "wrong.jsonl").write_bytes(encode_events(wrong))
    report = write_report(
        read_files(spark, [tmp_path / "wrong.jsonl"]), tmp_path / "wrong", group="g", files=[tmp_path / "wrong.jsonl"]
    )
    assert report.clocks == ("The clock of c1 is 24 h ahead: its times are corrected.",)
    assert report.span_ms < 1_000
    alone_tables(right, tmp_path / "right" / "tables", group="g")

    def owned(name: str) -> list[tuple[object, ...]]:
        rows = spark.read.parquet(str(tmp_path / name / "tables" / "ownership")).collect()
        return sorted(
            tuple(row[each] for each in ("queue_id", "owner", "token", "ended", "duplicates")) for row in rows
        )

    assert owned("wrong") == owned("right")
    [one] = report.groups
    assert (one.totals.double_ms, one.totals.duplicates) == (0, 0)
