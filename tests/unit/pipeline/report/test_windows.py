from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from model.errors import ConfigError
from pipeline.report.windows import COSTS, WINDOWS, time_of, window_of, windows_of, write_windows
from pipeline.trace.alone import read_events, write_arrow_tables
from tests.unit.pipeline.report.report_tables import write
from tests.unit.pipeline.runs.runs import simulated_trace


def rows(tables: Path, window_s: float | None = None) -> list[dict[str, float]]:
    write_windows(tables, window_s)
    found: list[dict[str, float]] = pq.read_table(tables / WINDOWS).to_pylist()
    return found


def sums(found: Iterable[dict[str, float]], *names: str) -> dict[str, float]:
    return {name: sum(row[name] for row in found) for name in names}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a run in which a member is killed."""
    folder = tmp_path_factory.mktemp("run")
    return write_arrow_tables(read_events([simulated_trace(folder / "trace.jsonl", seed=1)])[0], folder)


def test_what_moves_is_in_the_window_of_its_time_and_quiet_windows_have_rows_too(tmp_path: Path) -> None:
    tables = write(tmp_path / "tables")
    found = windows_of(tables, *time_of(tables), 2_000).to_pylist()
    columns = ("window", "since_ms", "rebalances", "moves", "orphan_ms", "duplicates", "handed_out")
    assert [tuple(row[name] for name in columns) for row in found] == [
        (0, 0, 1, 2, 0, 0, 100),
        (1, 2_000, 0, 0, 0, 0, 0),
        (2, 4_000, 1, 1, 290, 2, 12),
        (3, 6_000, 0, 0, 0, 0, 0),
        (4, 8_000, 0, 0, 0, 0, 0),
    ]


@pytest.mark.parametrize("window_s", [1, 2.5, 7, 100])
def test_the_sums_over_all_windows_are_the_sums_of_the_trace(tables: Path, window_s: float) -> None:
    owned = pq.read_table(tables / "ownership").to_pylist()
    rebalances = [row for row in pq.read_table(tables / "rebalances").to_pylist() if row["moves"]]
    delivered = pq.read_table(tables / "delivery").to_pylist()
    found = rows(tables, window_s)
    assert sums(found, *COSTS) == pytest.approx(sums(owned, *COSTS))
    assert sums(found, "handed_out") == sums(delivered, "handed_out")
    assert sum(row["rebalances"] for row in found) == len(rebalances) > 1
    assert sum(row["moves"] for row in found) == sum(row["moved"] for row in owned) > 4
    assert sums(found, "orphan_ms")["orphan_ms"] > 0


def test_a_lag_holds_until_the_next_report_and_a_latency_is_a_mean_over_messages(tmp_path: Path) -> None:
    tables = write(tmp_path / "tables")
    found = windows_of(tables, *time_of(tables), 2_000).to_pylist()
    assert [row["lag"] for row in found] == [12, 12, 45, 45, 45]
    assert [row["latency_ms"] for row in found] == [4.0, None, 4.0, None, None]


def test_there_are_about_thirty_windows_and_none_is_shorter_than_the_rows_of_the_lag() -> None:
    assert window_of(500) == 1_000
    assert window_of(60_000) == 2_000
    assert window_of(3_600_000) == 200_000
    assert window_of(60_000, 1.5) == 1_500
    assert window_of(3_600_000, 7) == 7_000
    with pytest.raises(ConfigError, match=r"windows of 5 s are too short: a trace of 3,600 s .* for each 7 s"):
        window_of(3_600_000, 5)
