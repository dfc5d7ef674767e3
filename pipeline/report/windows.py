"""Figures by window: what a trace has in each stretch of its time, computed from its tables. Without Spark.

    window 0    0 s to 5 s     2 moves     queues without an owner for 40 ms
    window 1    5 s to 10 s    0 moves     0 ms, also a row

A move and its costs count in the window in which the queue was acquired, a rebalance in the window of its cause, and
dispatched messages in the window of their report, so the sums over all windows are the sums over the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.errors import ConfigError
from pictures.svg import nice_step
from pipeline import arrow_arrays
from pipeline.arrow_arrays import as_numpy, scalar
from pipeline.report.data import read_table
from pipeline.trace.parts import write_whole
from traces.figures.over_time import SHORTEST_BUCKET_MS, bucket_length

WINDOWS = "windows"
"""The name of the table."""
COSTS = ("pause_ms", "orphan_ms", "double_ms", "duplicates", "possible_duplicates")
"""Columns that are sums over the ownerships that began in a window."""
SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("window", pa.int64()),
        ("since_ms", pa.float64()),
        ("rebalances", pa.int64()),
        ("moves", pa.int64()),
        *((name, pa.float64() if name.endswith("_ms") else pa.int64()) for name in COSTS),
        ("handed_out", pa.int64()),
        ("latency_ms", pa.float64()),
        ("lag", pa.int64()),
    ]
)
_DEFAULT_WINDOWS = 30

_Column = np.ndarray[Any, Any]


def window_of(span_ms: float, window_s: float | None = None) -> float:
    """Return the length of windows in milliseconds: `window_s`, or else a round number that gives about 30 of them.

    Raises:
        ConfigError: `window_s` is shorter than the rows of the table `delivery` of a trace of this length.
    """
    shortest_ms = bucket_length(span_ms)
    if window_s is None:
        return max(shortest_ms, nice_step(span_ms / _DEFAULT_WINDOWS / SHORTEST_BUCKET_MS) * SHORTEST_BUCKET_MS)
    if window_s * 1_000 < shortest_ms:
        raise ConfigError(
            f"windows of {window_s:g} s are too short: a trace of {span_ms / 1_000:,.0f} s has a lag and a latency for "
            f"each {shortest_ms / 1_000:g} s, so windows are at least as long"
        )
    return window_s * 1_000


def write_windows(tables: Path, window_s: float | None = None) -> None:
    """Write the table `windows` beside the tables that it is computed from.

    Raises:
        ConfigError: as `window_of`.
    """
    start_ms, span_ms = time_of(tables)
    write_whole(tables / WINDOWS, windows_of(tables, start_ms, span_ms, window_of(span_ms, window_s)))


def time_of(tables: Path) -> tuple[float, float]:
    """Return the wall clock of the first event, and the time from there to the last, in milliseconds."""
    nodes = read_table(tables / "nodes")
    start_ms = float(as_numpy(nodes["first_ms"]).min())
    return start_ms, float(as_numpy(nodes["last_ms"]).max()) - start_ms


def windows_of(tables: Path, start_ms: float, span_ms: float, window_ms: float) -> pa.Table:
    """Return the table: a row for each group that owned a queue and each window, also if nothing happened in it."""
    count = int(span_ms // window_ms) + 1
    read = {name: read_table(tables / name) for name in ("ownership", "rebalances", "delivery")}

    def place(times_ms: pa.ChunkedArray) -> _Column:
        return np.clip((as_numpy(times_ms) - start_ms) // window_ms, 0, count - 1).astype(np.int64)

    def rows() -> Iterator[tuple[Any, ...]]:
        for group in sorted(read["ownership"]["group"].unique().to_pylist()):
            of_group = {name: table.filter(pc.equal(table["group"], scalar(group))) for name, table in read.items()}
            owned, rebalances, delivery = of_group["ownership"], of_group["rebalances"], of_group["delivery"]
            began, moved = place(owned["from_ms"]), as_numpy(owned["moved"])
            with_moves = as_numpy(rebalances["moves"]) > 0
            columns = [
                np.bincount(place(rebalances["began_ms"])[with_moves], minlength=count).tolist(),
                np.bincount(began[moved], minlength=count).tolist(),
                *(_sums(began, as_numpy(owned[name]), count, SCHEMA.field(name).type) for name in COSTS),
                *_delivered(delivery, place(delivery["t_ms"]).tolist(), count),
            ]
            for window, values in enumerate(zip(*columns, strict=True)):
                yield (group, window, window * window_ms, *values)

    return arrow_arrays.table(list(rows()), SCHEMA)


def _sums(places: _Column, values: _Column, count: int, kind: pa.DataType) -> list[float]:
    sums = np.bincount(places, values, minlength=count)
    numbers: list[float] = (sums if pa.types.is_floating(kind) else np.rint(sums).astype(np.int64)).tolist()
    return numbers


def _delivered(delivery: pa.Table, places: list[int], count: int) -> tuple[list[int], list[Any], list[Any]]:
    """Return the dispatched messages, their mean latency, and the lag at the end of each window."""
    handed_out, known_counts, waited = [0] * count, [0] * count, [0.0] * count
    lags: list[dict[str, int]] = [{} for _ in range(count)]  # topic -> the last lag in the window
    rows = sorted(zip(delivery["t_ms"].to_pylist(), places, delivery.to_pylist(), strict=True), key=lambda row: row[0])
    for _, window, row in rows:
        handed_out[window] += row["handed_out"]
        if row["latency_ms"] is not None:
            known_counts[window] += row["handed_out"]
            waited[window] += row["latency_ms"] * row["handed_out"]
        if row["lag"] is not None:
            lags[window][row["topic"]] = row["lag"]
    latest: dict[str, int] = {}
    lag: list[int | None] = []
    for changed in lags:
        latest |= changed
        lag.append(sum(latest.values()) if latest else None)
    return handed_out, [total / n if n else None for total, n in zip(waited, known_counts, strict=True)], lag
