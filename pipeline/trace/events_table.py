"""The table `events` of a long trace: in runs, each with the events of one group by time, so that a task reads its own.

A task that writes holds `CHUNK_ROWS` events, sorts them by group and time and writes each group as a row group of its
file, which is called a run; small groups share one. Whoever reads a group needs its runs and those without a group, in
order of their begins, and of a trace that is roughly in order of time it holds a few at a moment.

    file     row group   events of        begin
    part-7   0           (no group)       12.0
    part-7   1           billing          10.5
    part-7   2           audit, search    11.0     both together are fewer than RUN_ROWS
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from figures.uses import KINDS
from model.events import Event
from pipeline.arrow_arrays import numbers
from pipeline.arrow_arrays import table as table_of_rows
from pipeline.trace.parts import TablePart, begin_table, end_table
from pipeline.trace.rows import schema_of, values_of

CHUNK_ROWS = 500_000
"""Events that a task sorts at once: 100 MB."""
RUN_ROWS = 20_000
"""Events of a row group at least, unless a group or a chunk ends: with fewer, Parquet's own data outweigh them."""
READ_ROWS = 200_000
"""Events of a group that are sorted at once at least, while it is read."""

SCHEMA = schema_of(Event)
_TEXTS = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
_WRITTEN = pa.schema(
    [(field.name, pa.dictionary(pa.int32(), pa.string()) if field.name in _TEXTS else field.type) for field in SCHEMA]
)
_KINDS = [str(kind.value) for kind in sorted(KINDS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """A row group of the table.

    Attributes:
        groups: consumer group, or "" -> how many of its events are of kinds from which figures are computed.
    """

    file: str
    row_group: int
    first_ms: float
    groups: dict[str, int]


_RUN = pa.schema(
    [("file", pa.string()), ("row_group", pa.int64()), ("first_ms", pa.float64()), ("groups", pa.string())]
)


def write_events(events: DataFrame, folder: Path) -> list[EventRun]:
    """Write the table, in place of an older one."""
    begin_table(folder)
    written = events.select(*SCHEMA.names).mapInArrow(
        partial(_write, folder=folder), "file string, row_group bigint, first_ms double, groups string"
    )
    runs = [
        EventRun(
            file=row["file"], row_group=row["row_group"], first_ms=row["first_ms"], groups=json.loads(row["groups"])
        )
        for row in written.collect()
    ]
    end_table(folder, dict.fromkeys(run.file for run in runs))
    return runs


def _write(batches: Iterator[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Write the events of a task as one file; returns its runs once it is complete."""
    part: TablePart | None = None
    rows: list[tuple[str, int, float, str]] = []
    for chunk in _chunks(batches):
        part = part or TablePart(folder, _WRITTEN)
        for groups, run in _runs_in(chunk):
            rows.append((part.name, len(rows), pc.min(run["t_ms"]).as_py(), json.dumps(groups)))
            part.write(run)
    if part is not None:
        part.close()
        yield from table_of_rows(rows, _RUN).to_batches()


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
    """The runs of a chunk, each with its groups as in `EventRun`."""
    columns = [
        column.combine_chunks().dictionary_encode() if field.name in _TEXTS else column.combine_chunks()
        for column, field in zip(chunk.columns, SCHEMA, strict=True)
    ]
    coded = pa.Table.from_arrays(columns, schema=_WRITTEN)
    ranks = _ranks(coded["group"])
    order = np.lexsort((coded["t_ms"].to_numpy(), ranks))
    ordered = coded.take(numbers(order, pa.int64()))
    is_known = pc.is_in(ordered["kind"].cast(pa.string()), value_set=_known()).to_numpy(zero_copy_only=False)
    begun, n = 0, 0
    groups: dict[str, int] = {}
    for group, first, last in _groups_in(ordered["group"]):
        if begun < first and (n >= RUN_ROWS or last - first >= RUN_ROWS or "" in groups):
            yield groups, ordered.slice(begun, n)
            begun, n, groups = first, 0, {}
        groups[group] = int(is_known[first:last].sum())
        n += last - first
    yield groups, ordered.slice(begun, n)


def _known() -> pa.Array:
    return table_of_rows([(kind,) for kind in _KINDS], pa.schema([("kind", pa.string())]))["kind"].combine_chunks()


def _ranks(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each value of a coded column its place among all of them in order."""
    codes = column.combine_chunks()
    texts = codes.dictionary.to_pylist()
    places = np.empty(len(texts), np.int64)
    places[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    ranks: np.ndarray[tuple[int], np.dtype[np.int64]] = places[codes.indices.to_numpy()]
    return ranks


def _groups_in(column: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """The groups of a coded column whose equal values stand together: each with its first row, and the one behind."""
    codes = column.combine_chunks()
    numbers_of = codes.indices.to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(numbers_of)) + 1).tolist(), len(numbers_of)]
    for first, last in pairwise(begins):
        if first < last:
            yield codes.dictionary[int(numbers_of[first])].as_py(), first, last


class GroupReader:
    """Reads the events of some groups from their runs, in the order of `figures.records.order_of`."""

    def __init__(self, folder: Path, runs: Sequence[EventRun], groups: Sequence[str]) -> None:
        self._folder = folder
        self._runs: dict[str, list[EventRun]] = {group: [] for group in groups}
        self._files: dict[str, pq.ParquetFile] = {}
        self._shared: dict[tuple[str, int], dict[str, pa.Table]] = {}
        of_nobody = []
        for run in sorted(runs, key=lambda run: run.first_ms):
            for group in run.groups:
                if group in self._runs:
                    self._runs[group].append(run)
                elif not group:
                    of_nobody.append(run)
        self._of_nobody = [self._read(run)[""] for run in of_nobody] if "" not in self._runs else []

    def events(self) -> Iterator[tuple[str, Event]]:
        """The events of one group after the other, each with the name of the group; those of nobody are in each."""
        for group in self._runs:
            for ordered in self._in_order(group):
                for event in zip(*(values_of(column.combine_chunks()) for column in ordered.columns), strict=True):
                    yield group, Event._make(event)

    def _in_order(self, group: str) -> Iterator[pa.Table]:
        held, n, enough = [*self._of_nobody], 0, READ_ROWS
        for run in self._runs[group]:
            if n >= enough:
                whole = pa.concat_tables(held)
                is_over = pc.less(whole["t_ms"], run.first_ms)
                yield _sorted(whole.filter(is_over))
                held = [whole.filter(pc.invert(is_over))]
                n = len(held[0])
                enough = n + READ_ROWS
            mine = self._part_of(run, group)
            held.append(mine)
            n += len(mine)
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
            file = self._files[run.file] = pq.ParquetFile(self._folder / run.file, read_dictionary=_TEXTS)
        read = file.read_row_group(run.row_group, columns=SCHEMA.names).select(SCHEMA.names)
        is_known = pc.is_in(read["kind"].cast(pa.string()), value_set=_known())
        known = read.filter(is_known).unify_dictionaries().combine_chunks()
        found = {group: known.slice(first, last - first) for group, first, last in _groups_in(known["group"])}
        return {group: found.get(group, known.slice(0, 0)) for group in run.groups}


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
