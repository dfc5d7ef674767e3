"""Computes the tables `ownership`, `rebalances`, `fairness` and `totals`: runs `figures/` in Spark, group by group.

The definitions are those of `figures/records.py`. A task has the events of some groups, sorted by time, and holds of
each group what is open at a moment; so a trace may be longer than memory. Events without a group, which may be causes,
go to every group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import groupby
from types import NoneType
from typing import Any, get_args, get_type_hints

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from figures.group import KINDS, GroupFigures, Row
from figures.records import GroupTotals, Ownership, Rebalance, TopicLoads
from model.events import Event, EventKind

TABLES = ("ownership", "rebalances", "fairness", "totals")
ROWS_AT_ONCE = 20_000
"""Rows that a task returns together."""
MOST_TASKS = 200
"""A task for each group, up to so many."""

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _struct(record: type, *, without: str = "", more: Iterable[tuple[str, pa.DataType]] = ()) -> pa.DataType:
    """The columns of a record."""
    fields = [
        (name, _TYPES[next((one for one in get_args(hint) if one is not NoneType), hint)])
        for name, hint in get_type_hints(record).items()
        if name != without
    ]
    return pa.struct([*more, *fields])


_OF_CHANGE = (("group", pa.string()), ("cause", pa.string()))
SCHEMA = pa.schema(
    [
        ("ownership", _struct(Ownership)),
        ("rebalances", _struct(Rebalance, without="loads", more=[("balance_ms", pa.float64())])),
        ("fairness", _struct(TopicLoads, more=_OF_CHANGE)),
        ("totals", _struct(GroupTotals)),
    ]
)
"""One column for each table; a row has a value in one of them."""


def is_kind(*kinds: EventKind) -> Column:
    """Whether an event is of one of these kinds."""
    return F.col("kind").isin([kind.value for kind in kinds])


def figures_of(events: DataFrame, end_ms: float) -> DataFrame:
    """The rows of all tables, with `SCHEMA`; what is open at the end of the trace ends at `end_ms`.

    For `events` see `trace.source.trace_events`.
    """
    known = events.where(is_kind(*sorted(KINDS)))
    groups = sorted(row["group"] for row in known.where("`group` != ''").select("group").distinct().collect())
    of_nobody = known.where("`group` = ''").withColumn("of", F.explode(F.lit(groups or [""])))
    wanted = known.where("`group` != ''").withColumn("of", F.col("group")).unionByName(of_nobody)
    parts = wanted.repartition(max(1, min(len(groups), MOST_TASKS)), "of")
    # As `figures.records.order_of`.
    ordered = parts.sortWithinPartitions("of", "t_ms", F.col("node") == F.col("client"), "node", "seq")
    # Strings dominate the shuffle, and the most frequent events have a detail of which no figure is made.
    detail = F.when(is_kind(EventKind.MESSAGES_HANDED_OUT), F.lit("")).otherwise(F.col("detail"))
    columns = [detail.alias(name) if name == "detail" else F.col(name) for name in Event._fields]
    return ordered.select("of", *columns).mapInArrow(partial(_rows_in, end_ms=end_ms), from_arrow_schema(SCHEMA))


def table_in(rows: DataFrame, name: str) -> DataFrame:
    """One of `TABLES` in the result of `figures_of`."""
    return rows.where(F.col(name).isNotNull()).select(f"{name}.*")


def _rows_in(batches: Iterator[pa.RecordBatch], end_ms: float) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for each in _tables_of(batches, end_ms):
        rows.append(each)
        if len(rows) >= ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _tables_of(batches: Iterator[pa.RecordBatch], end_ms: float) -> Iterator[dict[str, Any]]:
    for group, of_group in groupby(_events_in(batches), key=lambda pair: pair[0]):
        figures = GroupFigures(group)
        for _, event in of_group:
            for row in figures.feed(event):
                yield from _tables(row)
        for row in figures.finish(end_ms):
            yield from _tables(row)
        yield {"totals": _columns(figures.totals(), _TOTALS)}


def _events_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, Event]]:
    for batch in batches:
        groups, *columns = (column.to_pylist() for column in batch.columns)
        yield from zip(groups, map(Event._make, zip(*columns, strict=True)), strict=True)


def _tables(row: Row) -> Iterator[dict[str, Any]]:
    if isinstance(row, Ownership):
        yield {"ownership": _columns(row, _OWNERSHIP)}
        return
    yield {"rebalances": _columns(row, _REBALANCE)}
    for each in row.loads:
        yield {"fairness": {"group": row.group, "cause": row.cause, **_columns(each, _LOADS)}}


def _columns(record: object, names: Sequence[str]) -> dict[str, Any]:
    """As `asdict`, which copies each value and takes ten times as long."""
    return {name: getattr(record, name) for name in names}


_OWNERSHIP, _REBALANCE, _TOTALS = (
    [field.name for field in SCHEMA.field(name).type] for name in ("ownership", "rebalances", "totals")
)
_LOADS = [field.name for field in fields(TopicLoads)]
