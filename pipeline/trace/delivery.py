"""What came to listeners as time went on, how long it had been stored, and how much still waited: the table `delivery`.

Members tell what they handed out with each commit of their offsets, so a row of this table is as exact as the commits
are frequent (`offset_persist_interval_s`). How much waits is told by brokers, at each grant of a lease and each commit
that moves a group; between two of them it stays as it was.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from model.events import EventKind
from model.names import RETRY_PREFIX
from pipeline.trace.ownership import QUEUE, number_of


def delivery_of(events: DataFrame, start_ms: float, bucket_ms: float) -> DataFrame:
    """The table `delivery`: a row for each group, topic and stretch of time in which something is known.

    Args:
        events: see `trace_source.trace_events`.
        start_ms: when the first stretch begins.
        bucket_ms: how long each is.

    Returns:
        group, topic, `t_ms` (beginning of the stretch), `handed_out` (messages), `latency_ms` (mean time between store
        and hand-out; null if nothing was handed out), `latency_max_ms`, `lag` (messages that wait at its end, in all
        queues).
    """
    told = events.where((F.col("queue_id") >= 0) & ~F.col("topic").startswith(RETRY_PREFIX))
    bucket = F.floor((F.col("t_ms") - start_ms) / bucket_ms).alias("bucket")
    place = ("group", "topic", "bucket")
    given = told.where(F.col("kind") == EventKind.MESSAGES_HANDED_OUT.value).select(
        "group", "topic", bucket, "n", _number("waited_ms").alias("mean_ms"), _number("max_ms").alias("max_ms")
    )
    handed_out = given.groupBy(*place).agg(
        F.sum("n").alias("handed_out"),
        (F.sum(F.col("mean_ms") * F.col("n")) / F.sum("n")).alias("latency_ms"),
        F.max("max_ms").alias("latency_max_ms"),
    )
    waits = told.where(
        F.col("kind").isin(EventKind.OFFSET_COMMITTED.value, EventKind.LOCK_GRANTED.value) & (F.col("n") >= 0)
    )
    before = F.lag("n").over(Window.partitionBy(number_of(*QUEUE)).orderBy("t_ms", "seq"))
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


def _number(name: str) -> Column:
    """A number of the detail: `waited_ms=M max_ms=X`."""
    return F.regexp_extract("detail", rf"\b{name}=([0-9.]+)", 1).try_cast("double")
