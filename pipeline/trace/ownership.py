"""Who had which queue when, and what each change of hands cost: the tables `ownership` and `hazards`.

A member has a queue from QUEUE_ACQUIRED to QUEUE_DROPPED, except while its broker takes the lease for ended: from
LOCK_EXPIRED with the member's token to its next LOCK_GRANTED. This is what `simulation/checks/ownership.py` says, too.
All that one member tells of one queue is followed in its own order (`pipeline/trace/intervals.py`); two members are put
in order by the tokens of their leases, which grow with every grant, and by time only where there are no leases. How
long a queue had no owner, or two, is a difference of two nodes' clocks, and as exact as they agree.

    c1 acquires at 100, drops at 150, c2 acquires at 160, pulls at 162     pause 12 ms, orphan 10 ms, double 0 ms
    c1's lease expires at 300 and c2 acquires at 290                       double 10 ms

Queues of retry topics are left out: they follow the others, and nobody waits for them.
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
"""Whoever finds intervals has its events in memory; with more tasks than that gives, each is over too soon."""


def ownership_of(events: DataFrame, end_ms: float) -> DataFrame:
    """The table `ownership`: a row for each time that a member had a queue.

    Args:
        events: see `trace_source.trace_events`.
        end_ms: end of the trace, where intervals end that nobody ended.

    Returns:
        group, topic, broker, queue_id, owner, from_ms, to_ms; `began` (acquired, or resumed after the lease had
        expired), `ended` (revoked, shutdown, lost, reset, expired, or open), `cause`, `end_cause`, `token`;
        `start_offset`, `backlog` (messages that waited there; null if the broker did not say), `first_pull_ms`,
        `first_message_ms`, `handed_out` (messages), `reach` (the offset behind the last one handed out).
    """
    told = events.where(F.col("kind").isin([kind.value for kind in KINDS]))
    told = told.where((F.col("queue_id") >= 0) & ~F.col("topic").startswith(RETRY_PREFIX))
    numbers = {
        "claim": number_of(*QUEUE, "client"),
        "kind": (F.array_position(F.array(*(F.lit(kind.value) for kind in KINDS)), F.col("kind")) - 1).cast("byte"),
        "by_client": (F.col("node") == F.col("client")).cast("byte"),
    }
    # Texts are most of all bytes to be moved.
    names = {name: F.when(F.col("kind") == EventKind.QUEUE_ACQUIRED.value, F.col(name)) for name in NAMES}
    is_bound = F.col("kind").isin([kind.value for kind in BOUNDS])
    reasons = {name: F.when(is_bound, F.col(name)) for name in REASONS}
    told = told.withColumns({**numbers, **names, **reasons}).select(*NUMBERS, *NAMES, *REASONS)
    tasks = -(-events.count() // EVENTS_PER_TASK)
    parts = told.repartition(max(1, tasks), "claim")
    return parts.mapInArrow(partial(_intervals_in, end_ms=end_ms), from_arrow_schema(SCHEMA))


def number_of(*names: str) -> Column:
    """A number for the values of some columns, to sort and group by: equal beginnings of texts make that slow.

    Of 64 bits: among a million of them the odds that two are equal by chance are one to thirty million.
    """
    # A value that is missing would be passed over, and those of two columns taken for each other's.
    return F.xxhash64(*(F.coalesce(F.col(name).cast("string"), F.lit("")) for name in names))


def _intervals_in(batches: Iterator[pa.RecordBatch], end_ms: float) -> Iterator[pa.RecordBatch]:
    read = list(batches)
    if read:
        yield from intervals_of(pa.Table.from_batches(read), end_ms).to_batches()


def hazards_of(ownership: DataFrame, events: DataFrame) -> DataFrame:
    """The table `hazards`: what each beginning of an interval of `ownership` cost.

    Args:
        ownership: see `ownership_of`.
        events: see `trace_source.trace_events`; those of operators' resets count.

    Returns:
        group, topic, broker, queue_id, cause, from_client (null for the first owner), to_client, from_ms, began;
        `moved`: whether the owner is another than the last one;
        `orphan_ms`: how long nobody had the queue before; `pause_ms`: that, and until the new owner's first pull;
        `double_ms`: how long this owner and exactly one of those before it had the queue;
        `redelivered`: messages that owners before had handed out and whose end was not committed, so that they come
        again; `duplicates`: how many of them have come again; both are 0 for who resumes, because it still has what it
        fetched; `start_offset`: the first of them; `backlog`.
    """
    resets = events.where(F.col("kind") == EventKind.OFFSET_RESET.value)
    # Behind every interval under an earlier token, and before all that come after it.
    resets = resets.select(*QUEUE, F.col("version").alias("token"), F.lit(float("inf")).alias("from_ms"))
    queue = Window.partitionBy(*QUEUE).orderBy("token", "from_ms", "owner")
    before = queue.rowsBetween(Window.unboundedPreceding, -1)
    is_reset, last_end = F.col("owner").isNull(), F.coalesce("last_end", F.lit(float("-inf")))
    rows = ownership.unionByName(resets, allowMissingColumns=True).withColumns(
        {
            "from_client": F.last(F.when(F.col("began") == "acquired", F.col("owner")), ignorenulls=True).over(before),
            "last_end": F.max("to_ms").over(before),
            # An operator's reset makes offsets come again on purpose: what was handed out before it counts no more.
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
    """How long this interval lies before the end of others, if there are any."""
    return _positive(F.least(F.col("to_ms"), F.coalesce(F.col(end), F.lit(float("-inf")))) - F.col("from_ms"))
