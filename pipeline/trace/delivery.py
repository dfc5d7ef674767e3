"""Computes the table `delivery`: dispatched messages, their latency, and the lag, over time.

Members report dispatched messages with each commit of their offsets, so a row is as exact as commits are frequent
(`offset_persist_interval_s`). Brokers report the lag at each grant of a lease and at each commit that moves an offset;
in between it is taken to be unchanged.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from model.events import EventKind
from model.names import RETRY_PREFIX
from pipeline.trace.group_figures import is_kind


def delivery_of(events: DataFrame, start_ms: float, bucket_ms: float) -> DataFrame:
    """The table `delivery`: a row for each group, topic and bucket of time with a report.

    The first bucket begins at `start_ms`; for `events` see `trace.source.trace_events`.

    Returns:
        group, topic, `t_ms` (begin of the bucket), `handed_out` (messages dispatched to listeners), `latency_ms` (mean
        time from store to dispatch; null without a dispatched message), `latency_max_ms`, `lag` (at its end, over all
        queues).
    """
    of_queues = events.where((F.col("queue_id") >= 0) & ~F.col("topic").startswith(RETRY_PREFIX))
    bucket = F.floor((F.col("t_ms") - start_ms) / bucket_ms).alias("bucket")
    place = ("group", "topic", "bucket")
    given = of_queues.where(is_kind(EventKind.MESSAGES_HANDED_OUT)).select(
        "group", "topic", bucket, "n", _number("waited_ms").alias("mean_ms"), _number("max_ms").alias("max_ms")
    )
    handed_out = given.groupBy(*place).agg(
        F.sum("n").alias("handed_out"),
        (F.sum(F.col("mean_ms") * F.col("n")) / F.sum("n")).alias("latency_ms"),
        F.max("max_ms").alias("latency_max_ms"),
    )
    waits = of_queues.where(is_kind(EventKind.OFFSET_COMMITTED, EventKind.LOCK_GRANTED) & (F.col("n") >= 0))
    before = F.lag("n").over(
        Window.partitionBy(_number_of("group", "topic", "broker", "queue_id")).orderBy("t_ms", "seq")
    )
    change = (F.col("n") - F.coalesce(before, F.lit(0))).alias("change")
    changes = waits.select("group", "topic", bucket, change).groupBy(*place).agg(F.sum("change").alias("change"))
    joined = handed_out.join(changes, list(place), "full")
    so_far = Window.partitionBy("group", "topic").orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0)
    return joined.select(
        "group",
        "topic",
        (F.col("bucket") * bucket_ms + start_ms).alias("t_ms"),
        F.coalesce("handed_out", F.lit(0)).alias("handed_out"),
        "latency_ms",
        "latency_max_ms",
        F.coalesce(F.sum("change").over(so_far), F.lit(0)).alias("lag"),
    )


def _number_of(*names: str) -> Column:
    """A 64-bit hash of some columns, to sort and group by, which is slow for strings with equal beginnings.

    Among a million hashes two are equal by chance once in thirty million times.
    """
    # xxhash64 skips nulls, so a value in one column and one in another would have the same hash.
    return F.xxhash64(*(F.coalesce(F.col(name).cast("string"), F.lit("")) for name in names))


def _number(name: str) -> Column:
    """A number of the detail: `waited_ms=M max_ms=X`."""
    return F.regexp_extract("detail", rf"\b{name}=([0-9.]+)", 1).try_cast("double")
