"""The jobs that turn a trace into tables, one after the other, written as Parquet.

    events       the events without duplicates: the input of the others
    ownership    the owner of each queue over time
    hazards      the cost of each handover
    rebalances   each rebalance with its cause, passes, moves and cost
    fairness     how even the loads were after each rebalance
    delivery     dispatched messages, their latency, and the lag
    counts       events of each kind in each group
    nodes        events of each node, and how many of them are missing

    with spark_session("report") as spark:
        tables = write_tables(read_files(spark, [Path("trace.jsonl")]), Path("report/tables"))
        spark.read.parquet(str(tables / "rebalances")).show()

Tables join on ids of causes; each function lists its columns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from model.errors import ConfigError
from model.limits import RUN_SEQS
from pipeline.trace.delivery import delivery_of
from pipeline.trace.ownership import hazards_of, ownership_of
from pipeline.trace.rebalances import fairness_of, rebalances_of, with_minimum_moves
from pipeline.trace.source import any_twice, each_once, events_of, trace_events

TABLES = ("events", "ownership", "hazards", "rebalances", "fairness", "delivery", "counts", "nodes")
MOST_BUCKETS = 600
"""Most rows of `delivery` for each topic and group."""
SHORTEST_BUCKET_MS = 1_000.0


def write_tables(
    read: DataFrame,
    directory: Path,
    *,
    group: str | None = None,
    progress: Callable[[str], object] = lambda table: None,
) -> Path:
    """Compute all tables and write each into a folder of its name, which is replaced; returns the directory.

    `read` is a trace, as `pipeline/trace/source.py` returns it; with a `group`, only that group counts. `progress` is
    called with the name of each table before it is computed.

    Raises:
        ConfigError: there is no event in the trace.
    """
    spark = read.sparkSession

    def write(name: str, table: DataFrame) -> DataFrame:
        progress(name)
        path = str(directory / name)
        table.write.mode("overwrite").parquet(path)
        return spark.read.schema(table.schema).parquet(path)  # without it Spark runs a job to find the schema

    # Later jobs read tables of earlier ones from disk: nothing is computed twice, and memory holds one table.
    events = write("events", events_of(read, group))
    if any_twice(events):
        # Rare and expensive: all columns of all events are sorted. A table cannot be read and replaced at once.
        twice = set_aside(directory / "events")
        events = write("events", each_once(spark.read.parquet(str(twice))))
        shutil.rmtree(twice)
    start_ms, end_ms = _bounds(events)
    with _large_batches(spark):
        ownership = write("ownership", ownership_of(events, end_ms))
    hazards = write("hazards", hazards_of(ownership, events))
    rebalances = rebalances_of(events, hazards).persist()
    try:
        fairness = write("fairness", fairness_of(ownership, rebalances, end_ms))
        write("rebalances", with_minimum_moves(rebalances, fairness))
    finally:
        rebalances.unpersist()
    write("delivery", delivery_of(events, start_ms, bucket_of(end_ms - start_ms)))
    write("counts", counts_of(events))
    # Of all groups, because the numbers of a node are without gaps only over all of its events.
    write("nodes", nodes_of(events if group is None else trace_events(read)))
    return directory


def set_aside(table: Path) -> Path:
    """Rename a table; a leftover of an interrupted report under the new name is removed."""
    aside = table.with_name(f"{table.name}_as_read")
    if aside.exists():
        shutil.rmtree(aside)
    return table.rename(aside)


def bucket_of(span_ms: float) -> float:
    """Length of the buckets of `delivery`: the fewest whole seconds that give at most `MOST_BUCKETS` of them."""
    return SHORTEST_BUCKET_MS * (span_ms // (MOST_BUCKETS * SHORTEST_BUCKET_MS) + 1)


def counts_of(events: DataFrame) -> DataFrame:
    """The table `counts`: group, kind, `n` (events), `clients` (distinct members)."""
    return events.groupBy("group", "kind").agg(F.count("*").alias("n"), F.countDistinct("client").alias("clients"))


def nodes_of(events: DataFrame) -> DataFrame:
    """The table `nodes`: node, `events`, first_ms, last_ms, and `lost`: gaps in the event numbers of each run.

    A client that restarts from 1 under the same id hides as many losses as it had numbers before.
    """
    runs = events.groupBy("node", F.floor(F.col("seq") / RUN_SEQS)).agg(
        F.count("*").alias("events"),
        F.min("t_ms").alias("first_ms"),
        F.max("t_ms").alias("last_ms"),
        (F.max("seq") - F.min("seq") + 1).alias("numbers"),
    )
    return runs.groupBy("node").agg(
        F.sum("events").alias("events"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.sum(F.greatest(F.col("numbers") - F.col("events"), F.lit(0))).alias("lost"),
    )


@contextmanager
def _large_batches(spark: SparkSession) -> Iterator[None]:
    """Pass rows to Python in batches of 100,000 instead of 10,000, which saves a tenth of the time of `ownership`."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = str(spark.conf.get(name))
    spark.conf.set(name, 100_000)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def _bounds(events: DataFrame) -> tuple[float, float]:
    bounds: Row | None = events.agg(F.min("t_ms").alias("start"), F.max("t_ms").alias("end")).first()
    if bounds is None or bounds["start"] is None:
        raise ConfigError("there is no event in the trace")
    return float(bounds["start"]), float(bounds["end"])
