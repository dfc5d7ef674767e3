"""Computes the tables `ownership` (the owner of each queue over time) and `hazards` (the cost of each handover).

A member owns a queue from QUEUE_ACQUIRED to QUEUE_DROPPED, except from LOCK_EXPIRED with the member's token to its next
LOCK_GRANTED; `simulation/checks/ownership.py` counts in the same way. The events of one member about one queue are
followed in their own order (`pipeline/trace/intervals.py`). Two members are ordered by the fencing tokens of their
leases, which grow with every grant, and by time only where there are no leases. The time that a queue had no owner, or
two, is a difference between the clocks of two nodes, and as exact as they agree.

    c1 acquires at 100, drops at 150, c2 acquires at 160, pulls at 162     pause 12 ms, orphan 10 ms, double 0 ms
    c1's lease expires at 300 and c2 acquires at 290                       double 10 ms

Queues of retry topics are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from model.events import EventKind
from model.names import RETRY_PREFIX
from pipeline.trace.intervals import BOUNDS, KINDS, NAMES, NUMBERS, REASONS, SCHEMA, intervals_of

QUEUE = ("group", "topic", "broker", "queue_id")
EVENTS_PER_TASK = 1_000_000
"""A task that finds intervals holds its events in memory; smaller tasks would cost more to start than to run."""


def ownership_of(events: DataFrame, end_ms: float) -> DataFrame:
    """The table `ownership`: a row for each interval in which a member owned a queue.

    Intervals that are open at the end of the trace end at `end_ms`; for `events` see `trace.source.trace_events`.

    Returns:
        group, topic, broker, queue_id, owner, from_ms, to_ms; `began` (acquired, or resumed after the lease had
        expired), `ended` (revoked, shutdown, lost, reset, expired, or open), `cause`, `end_cause`, `token`;
        `start_offset`, `backlog` (the lag there; null if the broker did not report it), `first_pull_ms`,
        `first_message_ms`, `handed_out` (messages dispatched), `reach` (the offset after the last of them).
    """
    of_claims = events.where(is_kind(*KINDS) & (F.col("queue_id") >= 0) & ~F.col("topic").startswith(RETRY_PREFIX))
    numbers = {
        "claim": number_of(*QUEUE, "client"),
        "kind": (F.array_position(F.array(*(F.lit(kind.value) for kind in KINDS)), F.col("kind")) - 1).cast("byte"),
        "by_client": (F.col("node") == F.col("client")).cast("byte"),
    }
    # String columns dominate the shuffle.
    names = {name: F.when(is_kind(EventKind.QUEUE_ACQUIRED), F.col(name)) for name in NAMES}
    reasons = {name: F.when(is_kind(*BOUNDS), F.col(name)) for name in REASONS}
    of_claims = of_claims.withColumns({**numbers, **names, **reasons}).select(*NUMBERS, *NAMES, *REASONS)
    tasks = -(-events.count() // EVENTS_PER_TASK)
    parts = of_claims.repartition(max(1, tasks), "claim")
    return parts.mapInArrow(partial(_intervals_in, end_ms=end_ms), from_arrow_schema(SCHEMA))


def is_kind(*kinds: EventKind) -> Column:
    """Whether an event is of one of these kinds."""
    return F.col("kind").isin([kind.value for kind in kinds])


def number_of(*names: str) -> Column:
    """A 64-bit hash of some columns, to sort and group by, which is slow for strings with equal beginnings.

    Among a million hashes two are equal by chance once in thirty million times.
    """
    # xxhash64 skips nulls, so a value in one column and one in another would have the same hash.
    return F.xxhash64(*(F.coalesce(F.col(name).cast("string"), F.lit("")) for name in names))


def _intervals_in(batches: Iterator[pa.RecordBatch], end_ms: float) -> Iterator[pa.RecordBatch]:
    read = list(batches)
    if read:
        yield from intervals_of(pa.Table.from_batches(read), end_ms).to_batches()


def hazards_of(ownership: DataFrame, events: DataFrame) -> DataFrame:
    """The table `hazards`: the cost of each begin of an interval of `ownership`.

    Of `events`, the operators' resets of offsets are used.

    Returns:
        group, topic, broker, queue_id, cause, from_client (null for the first owner), to_client, from_ms, began;
        `moved`: whether the owner is another than the last one;
        `orphan_ms`: time without an owner before; `pause_ms`: from the last owner's end to the new owner's first pull;
        `double_ms`: time that this owner and exactly one earlier one owned the queue;
        `redelivered`: messages dispatched by earlier owners and not committed, which are to be redelivered;
        `duplicates`: how many of them have been redelivered; both are 0 for an owner that resumes, because it still has
        the messages that it fetched; `start_offset`: the first of them; `backlog`.
    """
    resets = events.where(is_kind(EventKind.OFFSET_RESET))
    # Ordered after every interval with an earlier token and before every later one.
    resets = resets.select(*QUEUE, F.col("version").alias("token"), F.lit(float("inf")).alias("from_ms"))
    queue = Window.partitionBy(*QUEUE).orderBy("token", "from_ms", "owner")
    before = queue.rowsBetween(Window.unboundedPreceding, -1)
    is_reset, last_end = F.col("owner").isNull(), F.coalesce("last_end", F.lit(float("-inf")))
    rows = ownership.unionByName(resets, allowMissingColumns=True).withColumns(
        {
            "from_client": F.last(F.when(F.col("began") == "acquired", F.col("owner")), ignorenulls=True).over(before),
            "last_end": F.max("to_ms").over(before),
            # A reset by an operator redelivers on purpose: messages dispatched before it do not count.
            "resets": F.coalesce(F.sum(is_reset.cast("int")).over(before), F.lit(0)),
        }
    )
    rows = rows.withColumns(
        {
            "second_last_end": F.max(F.when(~is_reset, F.least("to_ms", last_end))).over(before),
            "reached": F.max(F.struct("resets", "reach")).over(before),
        }
    )
    counts = F.col("reached.resets") == F.col("resets")
    mark = F.when(counts, F.col("reached.reach")).otherwise(F.col("start_offset"))
    from_ms, acquired = F.col("from_ms"), F.col("began") == "acquired"

    def again(until: Column) -> Column:
        return F.when(acquired, _positive(until - F.col("start_offset"))).otherwise(F.lit(0)).cast("long")

    return rows.where(~is_reset).select(
        *QUEUE,
        "cause",
        "from_client",
        F.col("owner").alias("to_client"),
        "from_ms",
        "began",
        (acquired & ~F.col("from_client").eqNullSafe(F.col("owner"))).alias("moved"),
        _positive(from_ms - F.col("last_end")).alias("orphan_ms"),
        _positive(F.coalesce("first_pull_ms", from_ms) - F.col("last_end")).alias("pause_ms"),
        (_overlap("last_end") - _overlap("second_last_end")).alias("double_ms"),
        again(mark).alias("redelivered"),
        again(F.least(mark, F.col("reach"))).alias("duplicates"),
        "start_offset",
        "backlog",
    )


def _positive(value: Column) -> Column:
    return F.greatest(F.coalesce(value, F.lit(0)), F.lit(0))


def _overlap(end: str) -> Column:
    """How long this interval overlaps with earlier ones that end at `end`."""
    return _positive(F.least(F.col("to_ms"), F.coalesce(F.col(end), F.lit(float("-inf")))) - F.col("from_ms"))
