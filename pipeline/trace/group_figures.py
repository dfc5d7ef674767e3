"""Computes the tables `ownership`, `rebalances`, `fairness` and `totals`: runs `rows.py` in Spark, group by group.

A task has the events of some groups, sorted by time, and holds of
each group what is open at a moment; so a trace may be longer than memory. Events without a group, which may be causes,
go to every group.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from figures.group import KINDS
from model.events import Event, EventKind
from pipeline.garbage import no_search_for_cycles
from pipeline.trace.rows import SCHEMA, rows_of, values_of, zip_events

ROWS_AT_ONCE = 20_000
"""Rows that a task returns together."""
MOST_TASKS = 200
"""A task for each group, up to so many."""


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
    with no_search_for_cycles():
        for each in rows_of(_events_in(batches), end_ms):
            rows.append(each)
            if len(rows) >= ROWS_AT_ONCE:
                yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _events_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, Event]]:
    for batch in batches:
        groups, *columns = batch.columns
        yield from zip(values_of(groups), zip_events(columns), strict=True)
