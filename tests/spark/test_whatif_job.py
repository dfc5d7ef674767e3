"""What-if on Spark gives what one process gives, and the command prints it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from model.event_log import encode_events
from pipeline.replay import alone
from pipeline.replay.job import Grid, collect_events, collect_tried, find_baseline, read_group, try_all
from pipeline.replay.rules import Handover
from tests.unit.pipeline.replay.golden_trace import golden_events

pytestmark = pytest.mark.spark

GRID = Grid(intervals_s=(1.0, 20.0), timeouts_s=(5.0, 7.0), handovers=tuple(Handover), was_timeout_s=5.0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(encode_events(golden_events()))
    return path


def test_events_come_back_from_a_file_in_their_order(spark: SparkSession, trace: Path) -> None:
    assert collect_events(spark, [trace]) == golden_events()
    assert find_baseline(read_group(collect_events(spark, [trace]), None), 5.0).wrong_queues == 0


def test_lines_that_are_not_events_are_left_out_and_reported_of(spark: SparkSession, trace: Path) -> None:
    notes: list[str] = []
    assert collect_events(spark, [trace], notes.append) == golden_events()
    assert notes == []
    whole = trace.read_bytes()
    last = whole.splitlines()[-1]
    for length in (len(last) // 4, len(last) - len(b'"detail": ""}'), len(last) - 2):
        trace.write_bytes(whole + last[:length])
        assert collect_events(spark, [trace], notes.append) == golden_events()
        assert notes.pop() == "skipped lines of the trace that are not events: 1"


def test_the_job_finds_what_one_process_finds(spark: SparkSession) -> None:
    recorded, rules = read_group(golden_events(), None), GRID.rules()[::5]  # every value of everything is among them
    found = collect_tried(try_all(spark, recorded, rules), rules)
    assert [each.rules for each in found] == rules
    assert found == alone.try_all(recorded, rules)


def test_one_process_reads_and_writes_the_same_tables(spark: SparkSession, trace: Path, tmp_path: Path) -> None:
    recorded, rules = read_group(alone.collect_events([trace]), None), GRID.rules()[::5]
    assert alone.collect_events([trace]) == collect_events(spark, [trace])
    alone.write_costs(alone.try_all(recorded, rules), tmp_path / "whatif.parquet")
    written, of_job = spark.read.parquet(str(tmp_path / "whatif.parquet")), try_all(spark, recorded, rules)
    assert written.schema.simpleString() == of_job.schema.simpleString()
    assert written.orderBy("number").collect() == of_job.orderBy("number").collect()


def test_the_partitions_do_not_change_the_result(spark: SparkSession) -> None:
    recorded, rules = read_group(golden_events(), None), GRID.rules()[:8]
    table = try_all(spark, recorded, rules)
    rows = {row["number"]: row for row in table.coalesce(1).collect()}
    assert rows == {row["number"]: row for row in table.collect()}
    assert sorted(rows) == list(range(8))
