from __future__ import annotations

from pathlib import Path

from pipeline.runs.figures import OTHER
from pipeline.runs.words import compares, figure_rows, heads_of
from tests.unit.pipeline.runs.runs import made_runs


def test_a_figure_has_its_mean_its_interval_and_its_extremes(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, [{"moves": moves, "pause_ms": 100.0 * moves} for moves in (4, 6, 8)])
    rows = {row[0]: row[1:] for row in figure_rows(runs, "g<b>")}
    assert not compares(runs)
    assert rows["moves of queues"] == ["3", "6", "1.0 to 11.0", "4 to 8"]
    assert rows["pauses of queues, summed"] == ["3", "600 ms", "103 ms to 1.1 s", "400 ms to 800 ms"]
    assert all(len(row) == len(heads_of(runs)) - 1 for row in rows.values())


def test_a_change_is_in_per_cent_of_the_other_mean(tmp_path: Path) -> None:
    now = [{"moves": moves, "duplicates": 1, "balance_p50_ms": None} for moves in (4, 6, 8)]
    others = [{"moves": moves, "duplicates": 0, "needed": 3} for moves in (10, 12, 14)]
    runs = [*made_runs(tmp_path, now), *made_runs(tmp_path, others, OTHER)]
    rows = {row[0]: row[4:] for row in figure_rows(runs, "g<b>")}
    assert compares(runs)
    assert rows["moves of queues"] == ["12", "7.0 to 17.0", "-50%", "-88% to -12%"]
    assert rows["messages came twice"] == ["0", "0 to 0", "new", ""]
    assert rows["moves needed"] == ["3", "3 to 3", "+0%", "+0% to +0%"]
    assert rows["time to balance, median"] == ["40 ms", "40 ms to 40 ms", "", ""]
    assert all(len(row) == len(heads_of(runs)) - 4 for row in rows.values())
