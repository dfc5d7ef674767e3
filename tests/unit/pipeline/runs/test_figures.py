from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.runs.figures import OTHER, SCHEMAS, THIS, groups_of, tables_of, values_of
from tests.unit.pipeline.runs.runs import made_runs


def test_a_summary_has_the_mean_of_each_figure_over_the_runs_of_its_side(tmp_path: Path) -> None:
    here = made_runs(tmp_path, [{"moves": moves, "balance_p50_ms": None} for moves in (4, 6, 8)])
    runs = [*here, *made_runs(tmp_path, [{"moves": 20}], OTHER)]
    tables = tables_of(runs)
    found = {(row["side"], row["figure"]): row for row in tables["summary"]}
    moves = found[THIS, "moves"]
    assert (moves["group"], moves["n"], moves["mean"], moves["least"], moves["largest"]) == ("g<b>", 3, 6, 4, 8)
    assert (moves["low"], moves["high"]) == pytest.approx((1.032, 10.968), abs=1e-3)
    assert (found[OTHER, "moves"]["mean"], found[OTHER, "moves"]["low"]) == (20, None)
    assert (THIS, "balance_p50_ms") not in found, "no run has this figure"
    assert (THIS, "balance_p95_ms") in found
    assert groups_of(runs) == ["g<b>"]
    assert values_of(runs, OTHER, "g<b>", "moves") == [20]


def test_a_row_has_the_columns_of_its_table(tmp_path: Path) -> None:
    tables = tables_of(made_runs(tmp_path, [{}, {}]))
    assert tables.keys() == SCHEMAS.keys()
    for name, rows in tables.items():
        assert rows, name
        assert all(row.keys() == set(SCHEMAS[name].names) for row in rows), name


def test_a_window_has_its_mean_over_the_runs_that_lasted_until_then(tmp_path: Path) -> None:
    first, second = made_runs(tmp_path, [{}, {}])
    del second.windows[1]
    found = tables_of([first, second])["windows_summary"]
    assert [(row["window"], row["n"], row["mean"]) for row in found if row["figure"] == "handed_out"] == [
        (0, 2, 100),
        (1, 1, 12),
    ]
