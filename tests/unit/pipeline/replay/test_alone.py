"""A short trace is replayed without Spark: read from files, under all rules, and written as the table of the job."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from model.event_log import encode_events
from pipeline.replay.alone import collect_events, files_for_one_process, try_all, write_costs
from pipeline.replay.job import Grid, read_group, try_rules
from pipeline.replay.rules import Handover
from pipeline.trace.files import read_file
from tests.unit.pipeline.replay.golden_trace import golden_events

GRID = Grid(intervals_s=(1.0, 20.0), timeouts_s=(5.0, 7.0), handovers=tuple(Handover), was_timeout_s=5.0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(encode_events(golden_events()))
    return path


def test_events_come_back_from_lines_and_from_a_folder_of_parquet_and_other_lines_are_reported(trace: Path) -> None:
    folder = trace.parent / "events"
    folder.mkdir()
    pq.write_table(read_file(trace), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()
    notes: list[str] = []
    for path in (trace, folder):
        files = files_for_one_process([path])
        assert files is not None
        assert collect_events(files, notes.append) == golden_events()
    assert notes == []
    trace.write_bytes(trace.read_bytes() + b'{"t_ms": 1, "no')
    assert collect_events([trace], notes.append) == golden_events()
    assert notes == ["skipped lines of the trace that are not events: 1"]


def test_a_folder_of_a_stream_and_a_long_trace_are_left_to_spark(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = trace.parent / "stream"
    (written / "_spark_metadata").mkdir(parents=True)
    assert files_for_one_process([trace, written]) is None
    assert files_for_one_process([trace]) == [trace]
    monkeypatch.setattr("pipeline.trace.alone.MOST_EVENTS", len(golden_events()) - 1)
    assert files_for_one_process([trace]) is None


def test_costs_that_are_kept_from_equal_outcomes_are_those_of_a_fresh_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, rules = read_group(golden_events(), None), GRID.rules()
    fresh = [try_rules(recorded, each) for each in rules]
    assert try_all(recorded, rules) == fresh
    assert len({each.costs for each in fresh}) < len(fresh)
    monkeypatch.setattr("pipeline.replay.job.MAX_KNOWN", 1)
    assert try_all(recorded, rules, 3.0) == [try_rules(recorded, each, 3.0) for each in rules]


@pytest.mark.parametrize("cells", [1, 6_000])
def test_lags_that_are_estimated_together_are_those_of_each_replay_alone(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, rules = read_group(golden_events(), None), GRID.rules()
    alone = [try_rules(recorded, each, 8.0) for each in rules]
    assert len({each.costs.lag_p99 for each in alone}) > 2
    monkeypatch.setattr("pipeline.replay.costs.MAX_CELLS", cells)
    assert try_all(recorded, rules, 8.0) == alone


def test_the_table_replaces_what_was_in_its_folder(tmp_path: Path) -> None:
    rules = GRID.rules()[:3]
    tried = try_all(read_group(golden_events(), None), rules)
    folder = tmp_path / "whatif.parquet"
    for _ in range(2):
        write_costs(tried, folder)
        (folder / "old.parquet").touch()
    write_costs(tried[1:], folder)
    rows = pq.read_table(folder).to_pylist()
    assert [row["number"] for row in rows] == [0, 1]
    assert [row["moves"] for row in rows] == [each.costs.moves for each in tried[1:]]
    assert [row["handover"] for row in rows] == [each.handover for each in rules[1:]]
