from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.events import Event
from pipeline.report import data
from pipeline.report.data import (
    MOST_POINTS,
    GroupSection,
    Totals,
    _thinned,
    percentile,
    queue_name,
    read_events_of_kinds,
    read_report,
)
from tests.unit.pipeline.report.report_tables import T0, TOTALS, write


def test_a_report_adds_up_what_the_tables_hold(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "tables"))
    [group] = report.groups
    assert (report.started_ms, report.span_ms, report.events, report.nodes, report.lost) == (T0, 9_000, 20, 2, 4)
    assert group.totals == Totals(
        **{**TOTALS, "group": "g<b>", "pause_ms": 300.0},
        balance_p50_ms=40.0,
        balance_p95_ms=400.0,
        balance_max_ms=400.0,
    )


def test_lost_messages_count_once_however_often_they_are_reported(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "tables"))
    assert report.damaged == 26
    assert [(queue_name(row), row["offset"], row["n"], row["detail"]) for row in report.damage] == [
        ("t@b:1", 50, 20, "0.log"),
        ("t@b:1", 60, 15, "0.log"),
        ("t@b:0", 7, 1, "9.log"),
    ]
    [group] = report.groups
    assert group.missed == {"damaged": 26, "deleted": 5}


def test_rebalances_are_ranked_by_cost_and_times_count_from_the_beginning(tmp_path: Path) -> None:
    [group] = read_report(write(tmp_path / "tables")).groups
    assert [(row["cause"], row["began_ms"]) for row in group.ranking] == [("c2/1", 5_000), ("c1/1", 0)]
    assert group.queues == ["t@b:0", "t@b:1"]
    assert [row["from_ms"] for row in group.intervals] == [0, 0, 5_400]
    assert [queue_name(row) for row in group.longest] == ["t@b:1"]
    assert [row["again"] for row in group.twice] == [7]
    assert (group.longest, group.pauses) == (group.bursts, [300.0])


def a_busy_report(directory: Path, queues: int, intervals: int) -> GroupSection:
    """Queues with so many times each, 1 s after 1 s; the higher its number, the longer a queue stood still."""
    write(directory)
    of_each = pd.read_parquet(directory / "ownership").iloc[0].to_dict()
    owned = [
        of_each
        | {"queue_id": number, "from_ms": T0 + 1_000 * second, "to_ms": T0 + 1_000 * second + 900}
        | {"pause_ms": float(number) / intervals}
        for second in range(intervals)
        for number in range(queues)
    ]
    pd.DataFrame(owned).to_parquet(directory / "ownership" / "part.parquet")
    [group] = read_report(directory).groups
    return group


@pytest.mark.parametrize(("intervals", "shown"), [(10, 40), (11, 36), (300, 1), (400, 1)])
def test_a_timeline_of_too_many_times_has_fewer_queues_each_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, intervals: int, shown: int
) -> None:
    monkeypatch.setattr(data, "MOST_QUEUES", 40)
    monkeypatch.setattr(data, "MOST_INTERVALS", 400)
    group = a_busy_report(tmp_path / "tables", 50, intervals)
    assert group.queues == [f"t@b:{number}" for number in range(50 - shown, 50)]
    assert (group.queues_in_all, group.left_out) == (50, 0)
    assert len(group.intervals) == shown * intervals
    assert group.intervals[-1]["to_ms"] == 1_000 * intervals - 100


def test_a_timeline_of_one_queue_with_too_many_times_says_how_many_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_INTERVALS", 100)
    group = a_busy_report(tmp_path / "tables", 2, 107)
    assert (group.queues, group.left_out, len(group.intervals)) == (["t@b:1"], 7, 100)
    assert group.intervals[-1]["to_ms"] == 99_900


def test_what_waits_in_one_topic_stays_where_another_has_a_row(tmp_path: Path) -> None:
    [group] = read_report(write(tmp_path / "tables")).groups
    assert [(row["t_ms"], row["handed_out"], row["latency_ms"], row["lag"]) for row in group.delivery] == [
        (0, 100, 4.0, 12),
        (5_000, 12, 4.0, 45),
    ]


def test_a_percentile_is_a_time_that_was_measured() -> None:
    assert percentile(np.array([]), 0.5) is None
    assert [percentile(np.array([1.0, 2.0, 7.0, 9.0]), share) for share in (0.5, 0.95, 1.0)] == [2.0, 9.0, 9.0]


def test_many_points_are_thinned_out_and_the_last_one_stays() -> None:
    rows = pa.table({"x": list(range(5 * MOST_POINTS + 3))})
    thin = _thinned(rows)["x"].to_pylist()
    assert len(thin) <= MOST_POINTS
    assert thin == sorted(thin)
    assert thin[-1] == len(rows) - 1
    assert _thinned(rows.slice(0, 7))["x"].to_pylist() == list(range(7))


def test_only_the_events_of_these_kinds_are_read_from_all_files_and_row_groups(tmp_path: Path) -> None:
    def event(seq: int) -> Event:
        return Event(float(seq), "b", seq, "FEW" if seq % 5 == 3 else "MANY", f"b/{seq}", "g", n=seq)

    for number in (0, 1):
        rows = [event(seq)._asdict() for seq in range(10 * number, 10 * number + 10)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"part-{number}.parquet", row_group_size=2)
    assert list(read_events_of_kinds(tmp_path, frozenset({"FEW", "OTHER"}))) == [event(seq) for seq in (3, 8, 13, 18)]
    assert list(read_events_of_kinds(tmp_path, frozenset({"OTHER"}))) == []
