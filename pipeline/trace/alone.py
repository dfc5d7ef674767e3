"""Computes the tables of a short trace in this process: the tables of `tables.py`, with the same values, without Spark.

For a trace of up to `MOST_EVENTS`, which is held in memory, the start of Spark alone takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.errors import ConfigError
from model.events import Event, EventKind
from model.limits import RUN_SEQS
from pipeline import arrow_arrays
from pipeline.arrow_arrays import as_numpy, scalar
from pipeline.trace.files import EVENT_SCHEMA, read_file, read_metadata
from pipeline.trace.parts import write_whole
from pipeline.trace.rows import KINDS, compute_rows, make_schema, read_values, zip_events
from pipeline.trace.rows import SCHEMAS as OF_GROUPS
from traces.figures.clocks.clocks import ClockFault, find_clocks
from traces.figures.records import order_of
from traces.figures.transactions import TransactionTotals, count_transactions

MOST_EVENTS = 1_000_000
"""Maximum number of events, whose objects need a gigabyte.

Spark takes twice as long for this number on two cores, and needs more memory.
"""
_BLOCK_BYTES = 16 * 1024 * 1024
_LOSS = ("kind", "group", "topic", "broker", "queue_id", "offset", "n", "detail")
_LOSS_SCHEMA = pa.schema([EVENT_SCHEMA.field(name) for name in _LOSS])
_TRANSACTION_SCHEMA = make_schema(TransactionTotals)
_IDENTITY = ("node", "seq", "t_ms")
_LOST_KINDS = (EventKind.MESSAGES_DAMAGED.value, EventKind.OFFSET_MOVED.value)


def is_for_one_process(paths: Sequence[Path]) -> bool:
    """Whether these are files, and not folders of a stream, with at most `MOST_EVENTS` events together.

    Raises:
        ConfigError: a file with the name of a Parquet file is not Parquet.
    """
    n = 0
    for path in paths:
        if path.is_dir():
            return False
        n += read_metadata(path).num_rows if path.suffix == ".parquet" else _lines_in(path, MOST_EVENTS)
    return n <= MOST_EVENTS


def _lines_in(path: Path, enough: int) -> int:
    n = 0
    with path.open("rb") as file:
        while n <= enough and (block := file.read(_BLOCK_BYTES)):
            n += block.count(b"\n")
    return n


def read_trace(paths: Sequence[Path]) -> tuple[pa.Table, int]:
    """Read a trace from JSON Lines or Parquet files; returns its events as a table, and the number of other lines.

    Raises:
        ConfigError: a file is not Parquet with these columns.
    """
    table = pa.concat_tables(map(read_file, paths))
    whole = table.drop_null() if any(column.null_count for column in table.columns) else table
    # A node that receives no answer sends its events again.
    firsts: dict[tuple[Any, ...], int] = {}
    for index, identity in enumerate(zip(*(read_values(_whole(whole[name])) for name in _IDENTITY), strict=True)):
        firsts.setdefault(identity, index)
    places = np.fromiter(firsts.values(), np.int64)
    once = whole if len(places) == whole.num_rows else whole.take(arrow_arrays.numbers(places, pa.int64()))
    return once, table.num_rows - whole.num_rows


def events_of(trace: pa.Table) -> list[Event]:
    """Return the rows of a table of events."""
    return [event for batch in trace.to_batches() for event in zip_events(batch.columns)]


def read_events(paths: Sequence[Path]) -> tuple[list[Event], int]:
    """Do the same as `read_trace`, but return events."""
    trace, others = read_trace(paths)
    return events_of(trace), others


def in_right_times(events: list[Event]) -> tuple[list[Event], tuple[ClockFault, ...]]:
    """Return the events with right times (`figures/clocks`), the same list if all are right, and the wrong clocks."""
    clocks = find_clocks(events)
    return events if clocks.are_right else [clocks.correct(event) for event in events], clocks.faults


def write_arrow_tables(
    events: list[Event],
    directory: Path,
    *,
    group: str | None = None,
    progress: Callable[[str], object] = lambda table: None,
    trace: pa.Table | None = None,
) -> Path:
    """Compute all tables and write each to a folder of its name, which is replaced; returns the directory.

    With a `group`, only that group counts; `progress` is called with the name of each table. `trace` is the table of
    the events, if there is one, so that it need not be built again.

    Raises:
        ConfigError: the trace has no event, or no event of the group.
    """
    own_events = events if group is None else [event for event in events if event.group in (group, "")]
    if group is not None and not any(event.group == group for event in own_events):
        raise ConfigError(f"the trace has no event of group {group!r}")
    times = [event.t_ms for event in own_events if group in (None, event.group)]
    if not times:
        raise ConfigError("the trace has no events")
    start_ms, end_ms = min(times), max(times)

    def write(name: str, rows: list[tuple[Any, ...]], schema: pa.Schema) -> None:
        progress(name)
        write_whole(directory / name, arrow_arrays.table(rows, schema))

    progress("events")
    table = _table_of(events) if trace is None else trace
    of_mine = (
        table if group is None else table.filter(pc.is_in(table["group"], value_set=arrow_arrays.texts([group, ""])))
    )
    write_whole(directory / "events", of_mine)
    rows_of: dict[str, list[tuple[Any, ...]]] = {name: [] for name in OF_GROUPS}
    for name, row in compute_rows(_by_group(own_events), start_ms, end_ms):
        rows_of[name].append(row)
    for name, schema in OF_GROUPS.items():
        write(name, rows_of[name], schema)
    write("losses", list(_losses(own_events)), _LOSS_SCHEMA)
    write(
        "transactions",
        list(map(attrgetter(*_TRANSACTION_SCHEMA.names), count_transactions(own_events))),
        _TRANSACTION_SCHEMA,
    )
    write("nodes", list(_nodes(table, group)), _NODE_SCHEMA)
    return directory


def _table_of(events: list[Event]) -> pa.Table:
    return arrow_arrays.table(events, EVENT_SCHEMA)


def _by_group(events: list[Event]) -> Iterator[tuple[str, Iterable[Event]]]:
    """Yield the groups with their events in order; events without a group may be causes in each group."""
    by_group: dict[str, list[tuple[int, Event]]] = {}
    for number, event in enumerate(sorted(events, key=order_of)):
        if event.kind in KINDS:
            by_group.setdefault(event.group, []).append((number, event))
    without_group = by_group.pop("", [])
    for group in sorted(by_group) or [""]:
        # Sorted by index, which is unique and ten times as fast as the key.
        yield group, (event for _, event in sorted(by_group.get(group, []) + without_group))


def _losses(events: Iterable[Event]) -> Iterable[tuple[Any, ...]]:
    losses = (event for event in events if event.kind in _LOST_KINDS and event.n > 0)
    return dict.fromkeys(map(attrgetter(*_LOSS), losses))


_NODE_SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("events", pa.int64()),
        ("first_ms", pa.float64()),
        ("last_ms", pa.float64()),
        ("lost", pa.int64()),
    ]
)


def _nodes(events: pa.Table, group: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield the number and times of the group's events by node, and of its `lost` events, from gaps in its numbers."""
    nodes = _whole(events["node"]).dictionary_encode()
    t_ms, seqs = as_numpy(events["t_ms"]), as_numpy(events["seq"])
    is_mine = np.ones(len(events), np.bool_) if group is None else _is_of(events, group)
    order = np.lexsort((seqs, as_numpy(nodes.indices)))
    # The indexes at which another run or another node begins.
    keys = np.stack([as_numpy(nodes.indices)[order], seqs[order] // RUN_SEQS])
    begins = np.flatnonzero(np.diff(keys, axis=1, prepend=-1).any(axis=0)).tolist()
    figures_of: dict[str, list[Any]] = {}
    for begin, end in pairwise([*begins, len(events)]):
        numbered = seqs[order[begin:end]]
        mine_ms = t_ms[order[begin:end]][is_mine[order[begin:end]]]
        node = figures_of.setdefault(nodes[int(order[begin])].as_py(), [0, np.inf, -np.inf, 0])
        node[0] += len(mine_ms)
        node[1] = min(node[1], float(mine_ms.min(initial=np.inf)))
        node[2] = max(node[2], float(mine_ms.max(initial=-np.inf)))
        node[3] += max(0, int(numbered[-1] - numbered[0]) + 1 - len(numbered))
    return ((name, *values) for name, values in figures_of.items() if values[0])


def _is_of(events: pa.Table, group: str) -> Any:
    return as_numpy(pc.equal(events["group"], scalar(group)))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, also if it has no rows."""
    return column.combine_chunks()
