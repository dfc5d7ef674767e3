"""Reads the contents of a report from the trace tables, as plain values of bounded size. Without Spark.

The tables are plain Parquet; Arrow reads, filters and sorts them, because pandas took most of the time of a short
report. Only `page.py` knows the layout of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from model.events import Event, EventKind
from model.missing_trace import missing_parts
from pipeline.arrow_arrays import as_numpy, numbers, scalar, texts
from pipeline.report.ownerless import KINDS as OWNERLESS_KINDS
from pipeline.report.ownerless import OwnerlessGroup, find_ownerless
from traces.figures.faults import KINDS as FAULT_KINDS
from traces.figures.faults import FaultHistory, InjectedFault
from traces.figures.records import GroupTotals, order_of

MOST_REBALANCES = 40
"""Rows of the ranking."""
MOST_QUEUES = 2_000
"""Rows of the timeline: the queues with the longest pauses."""
MOST_INTERVALS = 20_000
"""Maximum number of bars of the timeline; if there are more, fewer queues are shown, each from beginning to end."""
MOST_BANDS = 500
"""Number of rebalances in the pictures, the costliest first."""
MOST_POINTS = 3_000
"""Maximum number of points of a chart; more are thinned out evenly, and the last one is kept."""
MOST_DAMAGE = 40
"""Rows of the list of damage."""
MOST_MOVES = 6
"""Rows of each list of hazards."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(GroupTotals):
    """The figures of one group, as `rlab report --json` prints them.

    Attributes:
        balance_p50_ms, balance_p95_ms, balance_max_ms: time to balance of the rebalances that moved a queue; None if
            there was none.
    """

    balance_p50_ms: float | None
    balance_p95_ms: float | None
    balance_max_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSection:
    """The contents of a report about one group: rows of the tables, with times in milliseconds since the trace began.

    Attributes:
        longest, twice, bursts: the ownerships with the longest pauses, most messages `again`, and largest lags.
    """

    totals: Totals
    ranking: Rows  # rebalances that moved a queue, the costliest first
    members: Rows  # of each rebalance, also of those without a move: `ended_ms`, `members`
    bands: Rows  # rebalances that moved a queue and are drawn, the costliest first
    intervals: Rows  # of `ownership`, of the queues in the timeline
    left_out: int  # number of later intervals that are not shown; only if one queue alone has too many
    queues_in_all: int  # number of queues of the group, in the timeline or not
    queues: list[str]  # names of the queues in the timeline, in order
    balances: Rows  # kind, detail, trigger and balance_ms of rebalances that moved a queue
    pauses: list[float]  # pauses of moves above 0, in milliseconds
    longest: Rows
    twice: Rows
    bursts: Rows
    delivery: Rows  # of all topics together
    fairness: Rows  # in order of time
    missed: dict[str, int]  # messages that it was moved past, by reason: `damaged` or `deleted`


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The contents of a report."""

    started_ms: float  # wall clock of the first event
    span_ms: float  # time from the first event to the last
    events: int
    nodes: int
    lost: int  # number of missing events
    damaged: int  # stored messages that brokers have lost
    damage: (
        Rows  # ranges of lost messages, the largest first: broker, topic, queue_id, offset, n, and the file as `detail`
    )
    groups: list[GroupSection]  # groups that owned queues, the costliest first
    ownerless: list[OwnerlessGroup]  # the other consumer groups, for instance groups that pop, by name
    transactions: Rows  # of producer groups: `traces.figures.transactions.TransactionTotals`
    faults: list[InjectedFault]  # injected faults, with times in milliseconds of the wall clock
    missing: str = ""  # the part of the trace that could not be read, because its brokers were away
    clocks: tuple[str, ...] = ()  # those that were wrong, and whether their times are corrected


MISSING = "missing.txt"
"""File beside the tables that describes the part of the trace that could not be read."""
CLOCKS = "clocks.txt"
"""File beside the tables with a line about each clock that was wrong."""


def read_report(tables: Path) -> Report:
    """Read the contents of a report from the directory that `trace.tables.write_tables` has written."""
    read = {
        name: read_table(tables / name)
        for name in ("ownership", "rebalances", "fairness", "totals", "delivery", "losses", "transactions", "nodes")
    }
    nodes = read["nodes"]
    started_ms = float(pc.min(nodes["first_ms"]).as_py())
    for name, columns in _TIMES.items():
        for column in columns:
            read[name] = _with(read[name], column, pc.subtract(read[name][column], scalar(started_ms)))
    groups = [_group(str(name), read) for name in read["ownership"]["group"].unique().to_pylist()]
    damaged = _where(read["losses"], "kind", EventKind.MESSAGES_DAMAGED.value)
    damage = _rows(_sorted(damaged, "n", descending=True))
    groups.sort(key=lambda figures: (-figures.totals.pause_ms, figures.totals.group))
    return Report(
        started_ms=started_ms,
        span_ms=float(pc.max(nodes["last_ms"]).as_py()) - started_ms,
        events=int(pc.sum(nodes["events"]).as_py()),
        nodes=len(nodes),
        lost=int(pc.sum(nodes["lost"]).as_py()),
        damaged=_damaged(damage),
        damage=damage[:MOST_DAMAGE],
        groups=groups,
        ownerless=_ownerless(tables / "events", read, started_ms),
        transactions=_rows(_sorted(read["transactions"], "group")),
        faults=_faults(tables / "events"),
        missing=_note(tables / MISSING) or _silent_brokers(read),
        clocks=tuple(_note(tables / CLOCKS).splitlines()),
    )


def _silent_brokers(read: dict[str, pa.Table]) -> str:
    """The brokers of owned queues that have no event of their own: they were away when the trace was recorded."""
    silent = set(read["ownership"]["broker"].unique().to_pylist()) - set(read["nodes"]["node"].to_pylist())
    return str(missing_parts(silent))


def _note(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _ownerless(events: Path, read: dict[str, pa.Table], started_ms: float) -> list[OwnerlessGroup]:
    """Return the groups without an ownership; in a report of one group, events of other groups do not count."""
    owners = frozenset(read["ownership"]["group"].unique().to_pylist())
    groups = frozenset(read["totals"]["group"].unique().to_pylist()) - owners
    if not groups:
        return []
    own_events = (event for event in read_events_of_kinds(events, OWNERLESS_KINDS) if event.group in groups)
    return find_ownerless(own_events, owners, started_ms)


def _faults(events: Path) -> list[InjectedFault]:
    """Return the faults of the trace."""
    faults = FaultHistory()
    for event in sorted(read_events_of_kinds(events, FAULT_KINDS), key=order_of):
        faults.feed(event)
    return faults.rows


_TIMES = {
    "ownership": ("from_ms", "to_ms", "first_pull_ms"),
    "rebalances": ("began_ms", "ended_ms"),
    "fairness": ("t_ms",),
    "delivery": ("t_ms",),
}


def read_table(directory: Path) -> pa.Table:
    """Read a table from the Parquet files in its folder."""
    # File by file, because Arrow's functions that read folders, and that group or sort tables, import pandas.
    files = [pq.ParquetFile(path) for path in sorted(directory.glob("*.parquet"))]
    return pa.concat_tables(file.read() for file in files)


def _group(group: str, read: dict[str, pa.Table]) -> GroupSection:
    tables = {name: _where(table, "group", group) for name, table in read.items() if name != "nodes"}
    owned, rebalances = _with_queue(tables["ownership"]), tables["rebalances"]
    moved = rebalances.filter(pc.greater(rebalances["moves"], scalar(0)))
    with_members = rebalances.filter(pc.greater_equal(rebalances["members"], scalar(0)))
    ranked = _sorted(moved, "pause_ms", "duplicates", "moves", descending=True)
    queues = _queues(owned)
    shown_queues = _queues_of_timeline(queues)
    intervals = _sorted(owned.filter(pc.is_in(owned[_QUEUE], shown_queues[_QUEUE].combine_chunks())), "from_ms")
    pauses = as_numpy(owned["pause_ms"])
    twice_counts = pc.add(owned["redelivered"], owned["possible_duplicates"])
    return GroupSection(
        totals=_totals(tables["totals"], moved),
        ranking=_rows(ranked, MOST_REBALANCES),
        members=_rows(_thinned(_sorted(with_members, "ended_ms")).select(["ended_ms", "members"])),
        bands=_rows(ranked, MOST_BANDS),
        intervals=_rows(intervals.drop_columns(_QUEUE), MOST_INTERVALS),
        left_out=max(0, len(intervals) - MOST_INTERVALS),
        queues_in_all=len(queues),
        queues=[queue_name(row) for row in _rows(shown_queues)],
        balances=_rows(_thinned(_sorted(moved, "balance_ms")).select(["kind", "detail", "trigger", "balance_ms"])),
        pauses=[float(pause) for pause in pauses[pauses > 0]],
        longest=_most(owned, "pause_ms"),
        twice=_most(_with(owned, "again", twice_counts), "again"),
        bursts=_most(owned, "backlog"),
        delivery=_delivery(tables["delivery"]),
        fairness=_rows(_thinned(_sorted(tables["fairness"], "t_ms"))),
        missed=_missed(_rows(_sorted(tables["losses"], "detail"))),
    )


def _missed(moved: Rows) -> dict[str, int]:
    missed: dict[str, int] = {}
    for row in moved:
        missed[row["detail"]] = missed.get(row["detail"], 0) + row["n"]
    return missed


def _damaged(ranges: Rows) -> int:
    """Count the messages in all ranges; later starts of a broker may report a message again in other ranges."""
    n, upto, queue = 0, 0, ""
    for row in sorted(ranges, key=lambda row: (queue_name(row), row["offset"])):
        if queue_name(row) != queue:
            queue, upto = queue_name(row), 0
        end = row["offset"] + row["n"]
        n += max(0, end - max(row["offset"], upto))
        upto = max(upto, end)
    return n


_QUEUE = "queue"
"""Name of a temporary column with the identity of a queue."""


def queue_name(row: dict[str, Any]) -> str:
    """Return the name of a queue: `orders@broker-a:3`."""
    return f"{row['topic']}@{row['broker']}:{row['queue_id']}"


def _totals(of_group: pa.Table, moved: pa.Table) -> Totals:
    [row] = _rows(of_group)
    totals: dict[str, Any] = {name: _round(value) if name.endswith("_ms") else value for name, value in row.items()}
    times = np.sort(as_numpy(moved["balance_ms"]))
    return Totals(
        **totals,
        balance_p50_ms=percentile(times, 0.50),
        balance_p95_ms=percentile(times, 0.95),
        balance_max_ms=percentile(times, 1.0),
    )


def percentile(ordered: np.ndarray[Any, Any], share: float) -> float | None:
    """Return the nearest-rank percentile, which is always a measured time."""
    if not len(ordered):
        return None
    return _round(ordered[max(0, int(np.ceil(share * len(ordered))) - 1)])


def _round(value: float) -> float:
    return round(float(value), 1)


def _with_queue(owned: pa.Table) -> pa.Table:
    number = pc.cast(owned["queue_id"], pa.string())
    return _with(owned, _QUEUE, pc.binary_join_element_wise(owned["topic"], owned["broker"], number, scalar("\n")))


def _queues(owned: pa.Table) -> pa.Table:
    """Return topic, broker and id of each queue, in order, with the sum of its pauses and its number of intervals."""
    names = owned[_QUEUE].combine_chunks().dictionary_encode()
    codes = as_numpy(names.indices)
    _, firsts = np.unique(codes, return_index=True)
    queues = owned.select([_QUEUE, "topic", "broker", "queue_id"]).take(numbers(firsts, pa.int64()))
    pauses = np.bincount(codes, as_numpy(owned["pause_ms"]))
    counts = np.bincount(codes).astype(np.int64)
    queues = _with(queues, "pause_ms_sum", numbers(pauses, pa.float64()))
    return _sorted(_with(queues, "from_ms_count", numbers(counts, pa.int64())), "topic", "broker", "queue_id")


def _queues_of_timeline(queues: pa.Table) -> pa.Table:
    """Return the queues with the longest pauses that together have at most `MOST_INTERVALS` intervals; at least one."""
    still = _sorted(queues, "pause_ms_sum", descending=True).slice(0, MOST_QUEUES)
    together = np.cumsum(as_numpy(still["from_ms_count"]))
    return _sorted(still.slice(0, max(1, int((together <= MOST_INTERVALS).sum()))), "topic", "broker", "queue_id")


def _most(owned: pa.Table, column: str) -> Rows:
    some = owned.filter(pc.greater(owned[column], scalar(0)))
    return _rows(_sorted(some, column, descending=True).drop_columns(_QUEUE), MOST_MOVES)


def _delivery(delivery: pa.Table) -> Rows:
    """Sum the rows of all topics; in a bucket without a row of a topic, the topic keeps its last lag."""
    rows: dict[float, dict[str, Any]] = {}
    lags: dict[str, int] = {}
    for each in _rows(_sorted(delivery, "t_ms", "topic")):
        row = rows.setdefault(each["t_ms"], {"t_ms": each["t_ms"], "handed_out": 0, "weighted": 0.0})
        row["handed_out"] += each["handed_out"]
        row["weighted"] += (each["latency_ms"] or 0.0) * each["handed_out"]
        highest = [value for value in (row.get("latency_max_ms"), each["latency_max_ms"]) if value is not None]
        row["latency_max_ms"] = max(highest, default=None)
        if each["lag"] is not None:
            lags[each["topic"]] = each["lag"]
        row["lag"] = sum(lags.values())
    for row in rows.values():
        weighted = row.pop("weighted")
        row["latency_ms"] = weighted / row["handed_out"] if row["handed_out"] else None
    return list(rows.values())


def _thinned(rows: pa.Table) -> pa.Table:
    step = max(1, -(-len(rows) // MOST_POINTS))
    # From the end, so that the last row, which may be the slowest, is kept.
    return rows.take(numbers(np.arange(len(rows) - 1, -1, -step)[::-1].copy(), pa.int64()))


def _where(table: pa.Table, column: str, value: str) -> pa.Table:
    return table.filter(pc.equal(table[column], scalar(value)))


def _with(table: pa.Table, column: str, values: Any) -> pa.Table:
    """Return the table with a column replaced or added."""
    if column in table.column_names:
        return table.set_column(table.column_names.index(column), column, values)
    return table.append_column(column, values)


def _sorted(table: pa.Table, *columns: str, descending: bool = False) -> pa.Table:
    order = "descending" if descending else "ascending"
    # With the index as the last key, because Arrow may change the order of equal rows.
    placed = table.append_column("place of row", numbers(np.arange(len(table)), pa.int64()))
    by = [*((column, order) for column in columns), ("place of row", "ascending")]
    return table.take(pc.sort_indices(placed, sort_keys=by))


def _rows(table: pa.Table, max_rows: int | None = None) -> Rows:
    rows: Rows = table.slice(0, max_rows).to_pylist()
    return rows


def read_events_of_kinds(folder: Path, kinds: frozenset[str]) -> Iterator[Event]:
    """Yield the events of these kinds in the table `events`, file by file, so not in order of time.

    Most row groups of the table have none of a rare kind, and are not read.
    """
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path, read_dictionary=["kind"]) as file:
            for number in range(file.num_row_groups):
                chunks = file.read_row_group(number, ["kind"])["kind"].chunks
                if all(kinds.isdisjoint(chunk.dictionary.to_pylist()) for chunk in chunks):
                    continue
                read = file.read_row_group(number, list(Event._fields))
                is_wanted = pc.is_in(read["kind"].cast(pa.string()), value_set=texts(sorted(kinds)))
                for row in read.filter(is_wanted).to_pylist():
                    yield Event(**row)
