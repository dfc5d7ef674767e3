from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from model.errors import ConfigError
from pipeline.runs import folder
from pipeline.runs.figures import SCHEMAS
from pipeline.runs.folder import names_of, write_runs
from tests.unit.pipeline.runs.runs import simulated_trace


def test_runs_have_their_reports_their_tables_and_one_page(tmp_path: Path) -> None:
    names = names_of([simulated_trace(tmp_path / f"seed-{seed}.jsonl", seed=seed) for seed in (1, 2)])
    others = names_of([simulated_trace(tmp_path / "before" / "seed-1.jsonl", seed=3)])
    steps: list[str] = []
    runs = write_runs(names, tmp_path / "out", against=others, window_s=5, progress=steps.append)
    assert steps == ["run seed-1", "run seed-2", "run seed-1"]
    assert [(run.side, run.name) for run in runs] == [("this", "seed-1"), ("this", "seed-2"), ("other", "seed-1")]
    for each in ("index.html", "runs/seed-1/index.html", "runs/seed-2/index.html", "other-runs/seed-1/index.html"):
        assert (tmp_path / "out" / each).is_file()
    found = {name: pq.read_table(tmp_path / "out" / "tables" / name) for name in SCHEMAS}
    assert all(table.schema.equals(SCHEMAS[name]) for name, table in found.items())
    moves = {(run.side, run.name): run.report.groups[0].totals.moves for run in runs}
    of_windows = dict.fromkeys(moves, 0)
    for row in found["windows"].to_pylist():
        of_windows[row["side"], row["run"]] += row["moves"]
    assert of_windows == moves
    assert {row["since_ms"] for row in found["windows"].to_pylist()} >= {0, 5_000}


def test_runs_are_named_by_their_files_or_by_their_folders_too(tmp_path: Path) -> None:
    assert list(names_of([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])) == ["a", "b"]
    assert list(names_of([tmp_path / "x" / "a.jsonl", tmp_path / "y" / "a.jsonl"])) == ["x-a", "y-a"]
    deep = [tmp_path / name / "tables" / "events" for name in ("x", "y")]
    assert names_of(deep) == {"1-tables-events": [deep[0]], "2-tables-events": [deep[1]]}


def test_a_run_that_is_there_twice_and_too_many_runs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"a\.jsonl is there twice: it would count as two runs"):
        names_of([tmp_path / "a.jsonl", tmp_path / "b" / ".." / "a.jsonl"])
    monkeypatch.setattr(folder, "MOST_RUNS", 2)
    names_of([tmp_path / name for name in "ab"])
    with pytest.raises(ConfigError, match="3 runs are more than one report takes: at most 2"):
        names_of([tmp_path / name for name in "abc"])
