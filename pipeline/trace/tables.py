"""The jobs that compute the tables of a trace, one after the other, and write them as Parquet.

    events       the events without duplicates: the input of the others
    ownership    the owner of each queue over time, and the cost of each move
    rebalances   each rebalance with its cause, passes, moves and cost
    fairness     the evenness of the loads after each rebalance
    totals       the figures of each group
    delivery     dispatched messages, their latency, and the lag
    losses       messages that brokers have lost, and messages that a group was moved past
    transactions the outcomes of the transactions of each producer group
    nodes        the number of events of each node, and of missing events

    with spark_session("report") as spark:
        write_tables(read_files(spark, [Path("trace.jsonl")]), Path("report/tables"))
        spark.read.parquet("report/tables/rebalances").show()

Join tables on the columns that have the ids of causes. `traces/figures/records.py` defines the columns
of the tables of groups.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from model.errors import ConfigError
from model.limits import RUN_SEQS
from pipeline.trace.clocks import clocks_of_runs, in_right_times
from pipeline.trace.events_table import write_events
from pipeline.trace.group_figures import write_figures
from pipeline.trace.rows import SCHEMAS as OF_GROUPS
from pipeline.trace.source import EVENT_SCHEMA, may_have_duplicates, trace_events, without_duplicates
from traces.figures.clocks.clocks import RIGHT_CLOCKS, ClockFault
from traces.figures.transactions import COUNTED, SINGLE, TransactionTotals

TABLES = ("events", *OF_GROUPS, "losses", "transactions", "nodes")


def write_tables(
    read: DataFrame,
    directory: Path,
    *,
    group: str | None = None,
    files: Sequence[Path] = (),
    correct: bool = False,
    progress: Callable[[str], object] = lambda table: None,
) -> tuple[int, tuple[ClockFault, ...]]:
    """Compute all tables and write each to a folder of its name, which is replaced.

    Returns the number of skipped lines, and the clocks that were wrong. With `correct`, times are corrected first;
    without it, no clock counts as wrong.

    `read` is a trace, as `pipeline/trace/source.py` returns it; `files` are its files, if it was read from files. With
    a `group`, only that group counts. `progress` is called with the name of each table before it is computed.

    Raises:
        ConfigError: the trace has no event, or no event of the group.
    """
    spark = read.sparkSession

    def write(name: str, table: DataFrame) -> None:
        progress(name)
        table.write.mode("overwrite").parquet(str(directory / name))

    # Later jobs read the tables of earlier ones from disk, so no table is computed twice, and memory holds one table.
    progress("events")
    runs, skipped_lines = write_events(read, directory / "events", group=group, files=files)
    clocks = clocks_of_runs(directory / "events", runs) if correct else RIGHT_CLOCKS
    if not clocks.are_right:
        progress("events in right times")
        read = in_right_times(read, clocks)
        runs, skipped_lines = write_events(read, directory / "events", group=group)
    events = spark.read.schema(EVENT_SCHEMA).parquet(str(directory / "events"))
    if may_have_duplicates(events):
        # Rare and expensive: all columns of all events are sorted. A table cannot be read and replaced at the same
        # time.
        twice = set_aside(directory / "events")
        runs, _ = write_events(without_duplicates(spark.read.parquet(str(twice))), directory / "events")
        events = spark.read.schema(EVENT_SCHEMA).parquet(str(directory / "events"))
        shutil.rmtree(twice)
    if group is not None:
        _check_group(events, group)
    start_ms, end_ms = _bounds(events, group)
    progress(" ".join(OF_GROUPS))
    write_figures(spark, runs, directory, start_ms, end_ms)
    write("losses", find_losses(events))
    write("transactions", count_transactions(events))
    # From all groups, because only all events of a node together are numbered without gaps.
    write("nodes", count_nodes(events if group is None else trace_events(read), group))
    return skipped_lines, clocks.faults


def set_aside(table: Path) -> Path:
    """Rename a table; a leftover of an interrupted report under the new name is removed."""
    aside = table.with_name(f"{table.name}_as_read")
    if aside.exists():
        shutil.rmtree(aside)
    return table.rename(aside)


def find_losses(events: DataFrame) -> DataFrame:
    """Compute the table `losses`: kind, group, topic, broker, queue_id, offset, n, detail (docs/events.md).

    A row of MESSAGES_DAMAGED is a range of messages that a broker has lost, and has no group; a broker reports it again
    at each start, which yields one row here. A row of OFFSET_MOVED is a move of a group past messages that do not
    exist.
    """
    losses = events.where(F.col("kind").isin("MESSAGES_DAMAGED", "OFFSET_MOVED") & (F.col("n") > 0))
    return losses.select("kind", "group", "topic", "broker", "queue_id", "offset", "n", "detail").distinct()


def count_transactions(events: DataFrame) -> DataFrame:
    """Compute the table `transactions`: the columns of `TransactionTotals` (`traces/figures/transactions.py`)."""
    of_transactions = events.where(F.col("kind").isin(list(COUNTED)))
    n = F.when(F.col("kind") == SINGLE, F.lit(1)).otherwise(F.col("n"))
    each = [
        F.sum(F.when(F.col("kind") == kind, n).otherwise(0)).cast("bigint").alias(name)
        for kind, name in COUNTED.items()
    ]
    return of_transactions.groupBy("group").agg(*each).select([field.name for field in fields(TransactionTotals)])


def count_nodes(events: DataFrame, group: str | None = None) -> DataFrame:
    """Compute the table `nodes`: node, `events`, first_ms, last_ms, and `lost`: gaps in the event numbers of each run.

    With a `group`, only the nodes with events of it; `lost` counts all events of the node, the other columns only the
    group's.
    """
    is_own = F.lit(True) if group is None else F.col("group") == group
    runs = events.groupBy("node", F.floor(F.col("seq") / RUN_SEQS)).agg(
        F.count(F.when(is_own, 1)).alias("events"),
        F.min(F.when(is_own, F.col("t_ms"))).alias("first_ms"),
        F.max(F.when(is_own, F.col("t_ms"))).alias("last_ms"),
        (F.max("seq") - F.min("seq") + 1 - F.count("*")).alias("lost"),
    )
    nodes = runs.groupBy("node").agg(
        F.sum("events").alias("events"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.sum(F.greatest(F.col("lost"), F.lit(0))).alias("lost"),
    )
    return nodes.where("events > 0")


def _check_group(events: DataFrame, group: str) -> None:
    if events.where(F.col("group") == group).isEmpty():
        raise ConfigError(f"the trace has no event of group {group!r}")


def _bounds(events: DataFrame, group: str | None) -> tuple[float, float]:
    if group is not None:
        events = events.where(F.col("group") == group)
    bounds: Row | None = events.agg(F.min("t_ms").alias("start"), F.max("t_ms").alias("end")).first()
    if bounds is None or bounds["start"] is None:
        raise ConfigError("the trace has no events")
    return float(bounds["start"]), float(bounds["end"])
