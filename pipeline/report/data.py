"""Reads the contents of a report from the trace tables: plain values, small however long the trace is. Without Spark.

The tables are plain Parquet, so Arrow reads them quickly; only `page.py` knows the layout of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from figures.records import GroupTotals
from model.events import EventKind

MOST_REBALANCES = 40
"""Rows of the ranking."""
MOST_QUEUES = 2_000
"""Rows of the timeline: the queues with the longest pauses."""
MOST_INTERVALS = 20_000
"""Most bars of the timeline; if there are more, fewer queues are shown, each from the beginning to the end."""
MOST_BANDS = 500
"""Rebalances in the pictures: the costliest."""
MOST_POINTS = 3_000
"""Most points of a chart; more are thinned out evenly, and the slowest are kept."""
MOST_DAMAGE = 40
"""Rows of the list of damage."""
MOST_MOVES = 6
"""Rows of each list of hazards."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(GroupTotals):
    """The figures of one group, which `rlab report --json` prints.

    Attributes:
        balance_p50_ms, balance_p95_ms, balance_max_ms: time to balance of the rebalances that moved a queue; None
            without one.
    """

    balance_p50_ms: float | None
    balance_p95_ms: float | None
    balance_max_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSection:
    """The contents of a report about one group; rows are those of the tables, times in milliseconds since its begin.

    Attributes:
        longest, twice, bursts: the ownerships with the longest pauses, most messages `again`, and largest lags.
    """

    totals: Totals
    ranking: Rows  # rebalances that moved a queue, the costliest first
    members: Rows  # of each rebalance, also of those without a move: `ended_ms`, `members`
    bands: Rows  # rebalances that moved a queue, the costliest first, as many as are drawn
    intervals: Rows  # of `ownership`, of the queues in the timeline
    left_out: int  # number of later intervals that are left out; only if one queue alone has too many
    queues_in_all: int  # number of queues of the group, in the timeline or not
    queues: list[str]  # names of the queues in the timeline, in order
    balances: Rows  # kind, detail, trigger and balance_ms of rebalances that moved a queue
    pauses: list[float]  # of the moves, in milliseconds, those above 0
    longest: Rows
    twice: Rows
    bursts: Rows
    delivery: Rows  # of all topics together
    fairness: Rows  # in order of time
    missed: dict[str, int]  # messages that it was moved past, by why: `damaged` or `deleted`


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The contents of a report."""

    started_ms: float  # wall clock of the first event
    span_ms: float  # time from the first event to the last
    events: int
    nodes: int
    lost: int  # number of missing events
    damaged: int  # stored messages that brokers have lost
    damage: Rows  # ranges of them, the largest first: broker, topic, queue_id, offset, n, and the file as `detail`
    groups: list[GroupSection]  # those that owned queues, the costliest first
    transactions: Rows  # of producer groups: `figures.transactions.TransactionTotals`


def read_report(tables: Path) -> Report:
    """Read the contents of a report from the directory that `trace.tables.write_tables` has written."""
    read = {
        name: _table(tables / name)
        for name in ("ownership", "rebalances", "fairness", "totals", "delivery", "losses", "transactions", "nodes")
    }
    nodes = read["nodes"]
    started_ms = float(nodes["first_ms"].min())
    for name, columns in _TIMES.items():
        read[name][list(columns)] -= started_ms
    groups = [_group(str(name), read) for name in read["ownership"]["group"].unique()]
    losses = read["losses"]
    damage = _rows(losses[losses["kind"] == EventKind.MESSAGES_DAMAGED].sort_values("n", ascending=False))
    groups.sort(key=lambda one: (-one.totals.pause_ms, one.totals.group))
    return Report(
        started_ms=started_ms,
        span_ms=float(nodes["last_ms"].max()) - started_ms,
        events=int(nodes["events"].sum()),
        nodes=len(nodes),
        lost=int(nodes["lost"].sum()),
        damaged=_damaged(damage),
        damage=damage[:MOST_DAMAGE],
        groups=groups,
        transactions=_rows(read["transactions"].sort_values("group")),
    )


_TIMES = {
    "ownership": ("from_ms", "to_ms", "first_pull_ms"),
    "rebalances": ("began_ms", "ended_ms"),
    "fairness": ("t_ms",),
    "delivery": ("t_ms",),
}


def _table(directory: Path) -> pd.DataFrame:
    # Text stays in Arrow's form: a million names as Python strings would be most of the memory.
    return pd.read_parquet(directory, dtype_backend="pyarrow")


def _group(group: str, read: dict[str, pd.DataFrame]) -> GroupSection:
    mine = {name: table[table["group"] == group] for name, table in read.items() if name != "nodes"}
    owned, rebalances = mine["ownership"], mine["rebalances"]
    moved = rebalances[rebalances["moves"] > 0]
    told = rebalances[rebalances["members"] >= 0]
    ranked = moved.sort_values(["pause_ms", "duplicates", "moves"], ascending=False)
    shown = _queues_of_timeline(owned)
    intervals = owned.merge(shown, on=_QUEUE).sort_values("from_ms")
    pauses = owned["pause_ms"].to_numpy(dtype=float)
    return GroupSection(
        totals=_totals(mine["totals"], moved),
        ranking=_rows(ranked, MOST_REBALANCES),
        members=_rows(_thinned(told.sort_values("ended_ms"))[["ended_ms", "members"]]),
        bands=_rows(ranked, MOST_BANDS),
        intervals=_rows(intervals, MOST_INTERVALS),
        left_out=max(0, len(intervals) - MOST_INTERVALS),
        queues_in_all=owned.groupby(_QUEUE).ngroups,
        queues=list(dict.fromkeys(queue_name(row) for row in _rows(shown))),
        balances=_rows(_thinned(moved.sort_values("balance_ms"))[["kind", "detail", "trigger", "balance_ms"]]),
        pauses=[float(pause) for pause in pauses[pauses > 0]],
        longest=_most(owned, "pause_ms"),
        twice=_most(owned.assign(again=owned["redelivered"] + owned["possible_duplicates"]), "again"),
        bursts=_most(owned, "backlog"),
        delivery=_delivery(mine["delivery"]),
        fairness=_rows(_thinned(mine["fairness"].sort_values("t_ms"))),
        missed={str(why): int(n) for why, n in mine["losses"].groupby("detail")["n"].sum().items()},
    )


def _damaged(ranges: Rows) -> int:
    """The messages in all ranges; later starts of a broker may tell of one in other ranges."""
    n, upto, queue = 0, 0, ""
    for row in sorted(ranges, key=lambda row: (queue_name(row), row["offset"])):
        if queue_name(row) != queue:
            queue, upto = queue_name(row), 0
        end = row["offset"] + row["n"]
        n += max(0, end - max(row["offset"], upto))
        upto = max(upto, end)
    return n


_QUEUE = ["topic", "broker", "queue_id"]


def queue_name(row: dict[str, Any]) -> str:
    """`orders@broker-a:3`."""
    return f"{row['topic']}@{row['broker']}:{row['queue_id']}"


def _totals(of_group: pd.DataFrame, moved: pd.DataFrame) -> Totals:
    [row] = _rows(of_group)
    totals: dict[str, Any] = {name: _round(value) if name.endswith("_ms") else value for name, value in row.items()}
    times = np.sort(moved["balance_ms"].to_numpy(dtype=float))
    return Totals(
        **totals,
        balance_p50_ms=percentile(times, 0.50),
        balance_p95_ms=percentile(times, 0.95),
        balance_max_ms=percentile(times, 1.0),
    )


def percentile(ordered: np.ndarray[Any, Any], share: float) -> float | None:
    """The nearest-rank percentile: a measured time, never one between two."""
    if not len(ordered):
        return None
    return _round(ordered[max(0, int(np.ceil(share * len(ordered))) - 1)])


def _round(value: float) -> float:
    return round(float(value), 1)


def _queues_of_timeline(owned: pd.DataFrame) -> pd.DataFrame:
    """The queues with the longest pauses, as many as have at most `MOST_INTERVALS` together; at least one."""
    of_queues = owned.groupby(_QUEUE, as_index=False).agg(still_ms=("pause_ms", "sum"), intervals=("pause_ms", "size"))
    still = of_queues.nlargest(MOST_QUEUES, "still_ms")
    together = still["intervals"].cumsum()
    return still.head(max(1, int((together <= MOST_INTERVALS).sum()))).sort_values(_QUEUE)[_QUEUE]


def _most(owned: pd.DataFrame, column: str) -> Rows:
    some = owned[owned[column].fillna(0) > 0]
    return _rows(some.sort_values(column, ascending=False), MOST_MOVES)


def _delivery(delivery: pd.DataFrame) -> Rows:
    """All topics together; in a bucket without a row of a topic, its lag is the last one."""
    if delivery.empty:
        return []
    lag = delivery.pivot_table(index="t_ms", columns="topic", values="lag").sort_index().ffill().sum(axis=1)
    given = delivery.assign(weighted=delivery["latency_ms"] * delivery["handed_out"])
    summed = given.groupby("t_ms").agg(
        handed_out=("handed_out", "sum"), weighted=("weighted", "sum"), latency_max_ms=("latency_max_ms", "max")
    )
    summed["latency_ms"] = summed["weighted"] / summed["handed_out"].where(summed["handed_out"] > 0)
    summed["lag"] = lag
    return _rows(summed.drop(columns="weighted").sort_index().reset_index())


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    step = -(-len(rows) // MOST_POINTS)
    # From the end, so that the last one, which may be the slowest, is among them.
    return rows.iloc[:: -max(1, step)].iloc[::-1]


def _rows(table: pd.DataFrame, most: int | None = None) -> Rows:
    some = table if most is None else table.head(most)
    # Whole columns at once: a call for each of a million values took as long as the page.
    rows: Rows = some.astype(object).where(some.notna(), None).to_dict("records")
    return rows
