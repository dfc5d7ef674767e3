"""The table `events` of a long trace, in runs with the events of one group by time, so that a task reads only its own.

A writing task holds `CHUNK_ROWS` events, sorts them by group and time and writes each group as a row group of its file,
called a run; small groups share a run. A reader of a group needs its runs and the runs without a group, in the order of
their first events; if the trace is roughly in order of time, it holds only a few runs at a time.

    file     row group   events of        first event
    part-7   0           (no group)       12.0
    part-7   1           billing          10.5
    part-7   2           audit, search    11.0     both together are fewer than RUN_ROWS
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from model.events import Event
from pipeline.arrow_arrays import numbers, texts
from pipeline.arrow_arrays import table as table_of_rows
from pipeline.trace.files import CODED, EVENT_SCHEMA, TEXTS, TracePiece, read_pieces, split_files
from pipeline.trace.parts import TablePart, begin_table, end_table
from pipeline.trace.rows import KINDS, zip_events

CHUNK_ROWS = 500_000
"""Number of events that a task sorts at once: 100 MB."""
RUN_ROWS = 20_000
"""Minimum number of events of a row group, unless a group or a chunk ends: with fewer, Parquet's metadata dominate."""
READ_ROWS = 200_000
"""Minimum number of events of a group that a reader sorts at once."""

_KINDS = sorted(map(str, KINDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """A row group of the table.

    Attributes:
        groups: consumer group, or "" -> number of its events of kinds from which figures are computed.
    """

    file: str
    row_group: int
    first_ms: float
    groups: dict[str, int]


_RUN = pa.schema(
    [
        ("file", pa.string()),
        ("row_group", pa.int64()),
        ("first_ms", pa.float64()),
        ("groups", pa.string()),
        ("others", pa.int64()),
    ]
)


def write_events(
    read: DataFrame, folder: Path, *, group: str | None = None, files: Sequence[Path] = ()
) -> tuple[list[EventRun], int]:
    """Write the table of a trace, replacing an older one; returns its runs, and the number of lines without an event.

    With a `group`, only its events and events without a group are written. If `files` are the files of `read`, tasks
    read them directly.
    """
    tasks = split_files(files) if files else None
    begin_table(folder)
    write = partial(_write, folder=folder, group=group)
    piece_schema = "file string, row_group bigint, first_ms double, groups string, others bigint"
    if tasks is None:
        rows = read.select(*EVENT_SCHEMA.names).mapInArrow(write, piece_schema).collect()
    else:
        numbers_of = read.sparkSession.range(0, len(tasks), 1, max(1, len(tasks)))
        rows = numbers_of.mapInArrow(partial(_write_pieces, tasks=tasks, write=write), piece_schema).collect()
    runs = [
        EventRun(
            file=row["file"], row_group=row["row_group"], first_ms=row["first_ms"], groups=json.loads(row["groups"])
        )
        for row in rows
        if row["file"]
    ]
    end_table(folder, dict.fromkeys(run.file for run in runs))
    return runs, sum(row["others"] for row in rows)


def _write_pieces(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[Sequence[TracePiece]],
    write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    pieces = (piece for batch in batches for number in batch.column(0).to_pylist() for piece in tasks[number])
    yield from write(batch for table in read_pieces(pieces) for batch in table.to_batches())


def _write(batches: Iterator[pa.RecordBatch], folder: Path, group: str | None) -> Iterator[pa.RecordBatch]:
    """Write the events of a task as one file; returns its runs once it is complete."""
    part: TablePart | None = None
    rows: list[tuple[str, int, float, str, int]] = []
    others = 0
    for chunk in _chunks(batches):
        # Spark keeps the columns of a truncated line before the break.
        events = chunk.drop_null() if any(column.null_count for column in chunk.columns) else chunk
        others += len(chunk) - len(events)
        if group is not None:
            events = events.filter(pc.is_in(events["group"].cast(pa.string()), value_set=texts([group, ""])))
        if not len(events):
            continue
        part = part or TablePart(folder, CODED)
        for groups, run in _runs_in(events):
            rows.append((part.name, len(rows), pc.min(run["t_ms"]).as_py(), json.dumps(groups), 0))
            part.write(run)
    if part is not None:
        part.close()
    yield from table_of_rows([*rows, ("", -1, 0.0, "{}", others)], _RUN).to_batches()


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    n = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            n += batch.num_rows
        if n >= CHUNK_ROWS:
            yield pa.Table.from_batches(held)
            held, n = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _runs_in(chunk: pa.Table) -> Iterator[tuple[dict[str, int], pa.Table]]:
    """Yield the runs of a chunk, each with its groups as in `EventRun`."""
    # Coded as a whole, because equal texts in two batches would get two codes.
    columns = [
        column.combine_chunks().dictionary_encode() if pa.types.is_string(column.type) else column
        for column in chunk.columns
    ]
    coded = pa.Table.from_arrays(columns, schema=CODED).unify_dictionaries().combine_chunks()
    ranks = _ranks(coded["group"])
    order = np.lexsort((coded["t_ms"].to_numpy(), ranks))
    ordered = coded.take(numbers(order, pa.int64()))
    is_known = pc.is_in(ordered["kind"].cast(pa.string()), value_set=texts(_KINDS)).to_numpy(zero_copy_only=False)
    start, n = 0, 0
    groups: dict[str, int] = {}
    for group, first, last in _groups_in(ordered["group"]):
        if start < first and (n >= RUN_ROWS or last - first >= RUN_ROWS or "" in groups):
            yield groups, _compact(ordered.slice(start, n))
            start, n, groups = first, 0, {}
        groups[group] = int(is_known[first:last].sum())
        n += last - first
    yield groups, _compact(ordered.slice(start, n))


def _compact(run: pa.Table) -> pa.Table:
    """Return the run without the texts of other runs, which Parquet would otherwise store with each run."""
    columns = []
    for column in run.columns:
        codes = column.combine_chunks()
        if pa.types.is_dictionary(codes.type):
            used = np.zeros(len(codes.dictionary), np.bool_)
            used[codes.indices.to_numpy()] = True
            places = (np.cumsum(used) - 1).astype(np.int32)[codes.indices.to_numpy()]
            names = codes.dictionary.take(numbers(np.flatnonzero(used), pa.int64()))
            codes = pa.DictionaryArray.from_arrays(numbers(places, pa.int32()), names)
        columns.append(codes)
    return pa.Table.from_arrays(columns, schema=CODED)


def _ranks(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each value of a coded column its rank in the sorted values."""
    codes = column.combine_chunks()
    names = codes.dictionary.to_pylist()
    places = np.empty(len(names), np.int64)
    places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    ranks: np.ndarray[tuple[int], np.dtype[np.int64]] = places[codes.indices.to_numpy()]
    return ranks


def _groups_in(column: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """Yield the groups of a coded column whose equal values are adjacent, each with its first row and its end."""
    codes = column.combine_chunks()
    numbers_of = codes.indices.to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(numbers_of)) + 1).tolist(), len(numbers_of)]
    for first, last in pairwise(begins):
        if first < last:
            yield codes.dictionary[int(numbers_of[first])].as_py(), first, last


class GroupReader:
    """Reads the events of some groups from their runs, in the order of `traces.figures.records.order_of`."""

    def __init__(self, folder: Path, runs: Sequence[EventRun], groups: Sequence[str]) -> None:
        self._folder = folder
        self._runs: dict[str, list[EventRun]] = {group: [] for group in groups}
        self._files: dict[str, pq.ParquetFile] = {}
        self._shared: dict[tuple[str, int], dict[str, pa.Table]] = {}
        without_group = []
        for run in sorted(runs, key=lambda run: run.first_ms):
            for group in run.groups:
                if group in self._runs:
                    self._runs[group].append(run)
                elif not group:
                    without_group.append(run)
        self._without_group = [self._read(run)[""] for run in without_group] if "" not in self._runs else []

    def groups(self) -> Iterator[tuple[str, Iterator[Event]]]:
        """Yield the groups, each with its events and the events without a group."""
        for group in self._runs:
            yield group, self._events(group)

    def _events(self, group: str) -> Iterator[Event]:
        for ordered in self._in_order(group):
            yield from zip_events([column.combine_chunks() for column in ordered.columns])

    def _in_order(self, group: str) -> Iterator[pa.Table]:
        held, n, enough = [*self._without_group], 0, READ_ROWS
        for run in self._runs[group]:
            if n >= enough:
                whole = pa.concat_tables(held)
                is_over = pc.less(whole["t_ms"], run.first_ms)
                yield _sorted(whole.filter(is_over))
                held = [whole.filter(pc.invert(is_over))]
                n = len(held[0])
                enough = n + READ_ROWS
            own_part = self._part_of(run, group)
            held.append(own_part)
            n += len(own_part)
        if held:
            yield _sorted(pa.concat_tables(held))

    def _part_of(self, run: EventRun, group: str) -> pa.Table:
        if len(run.groups) == 1:
            return self._read(run)[group]
        key = (run.file, run.row_group)
        if key not in self._shared:
            self._shared[key] = {name: part for name, part in self._read(run).items() if name in self._runs}
        return self._shared[key].pop(group)

    def _read(self, run: EventRun) -> dict[str, pa.Table]:
        file = self._files.get(run.file)
        if file is None:
            file = self._files[run.file] = pq.ParquetFile(self._folder / run.file, read_dictionary=TEXTS)
        read = file.read_row_group(run.row_group, columns=EVENT_SCHEMA.names).select(EVENT_SCHEMA.names)
        is_known = pc.is_in(read["kind"].cast(pa.string()), value_set=texts(_KINDS))
        rows = read.filter(is_known).unify_dictionaries().combine_chunks()
        by_group = {group: rows.slice(first, last - first) for group, first, last in _groups_in(rows["group"])}
        return {group: by_group.get(group, rows.slice(0, 0)) for group in run.groups}


def _sorted(events: pa.Table) -> pa.Table:
    whole = events.unify_dictionaries().combine_chunks()
    is_of_client = pc.equal(whole["node"].cast(pa.string()), whole["client"].cast(pa.string()))
    keys = (
        whole["seq"].to_numpy(),
        _ranks(whole["node"]),
        is_of_client.to_numpy(),
        whole["t_ms"].to_numpy(),
    )
    return whole.take(numbers(np.lexsort(keys), pa.int64()))
