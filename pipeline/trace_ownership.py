"""Who had which queue when, and what each change of hands cost: the tables `ownership` and `hazards`.

A member has a queue from QUEUE_ACQUIRED to QUEUE_DROPPED, except while its broker takes the lease for ended: from
LOCK_EXPIRED with the member's token to its next LOCK_GRANTED. This is what `simulation/ownership.py` says, too. All
that one member tells of one queue is followed in its own order; two members are put in order by the tokens of their
leases, which grow with every grant, and by time only where there are no leases. How long a queue had no owner, or two,
is a difference of two nodes' clocks, and as exact as they agree.

    c1 acquires at 100, drops at 150, c2 acquires at 160, pulls at 162     pause 12 ms, orphan 10 ms, double 0 ms
    c1's lease expires at 300 and c2 acquires at 290                       double 10 ms

Queues of retry topics are left out: they follow the others, and nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from model.events import EventKind
from model.names import RETRY_PREFIX

QUEUE = ("group", "topic", "broker", "queue_id")
_CLAIM = ("claim", *QUEUE, "client")
"""Who may have what. `claim` is a hash of the rest: of rows, Spark compares the first column quickly when it sorts, and
names of groups begin alike."""

_BOUNDS = (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED, EventKind.LOCK_EXPIRED, EventKind.LOCK_GRANTED)
_TOLD = (
    *_BOUNDS,
    EventKind.FIRST_PULL,
    EventKind.FIRST_MESSAGE,
    EventKind.MESSAGES_HANDED_OUT,
)


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
    told = events.where(_is_any(_TOLD))
    told = told.where((F.col("queue_id") >= 0) & ~F.col("topic").startswith(RETRY_PREFIX))
    told = told.withColumn("claim", F.xxhash64(*QUEUE, "client"))
    by_client = F.col("node") == F.col("client")
    # The texts of events that begin and end nothing are half of all bytes to be sorted.
    texts = {"cause": F.when(_is_any(_BOUNDS), F.col("cause")), "detail": F.when(_is_any(_BOUNDS), F.col("detail"))}
    steps = _claims(told.withColumns(texts).select(*_CLAIM, *_STEP_COLUMNS, by_client.cast("int").alias("by_client")))
    rows = steps.where("n_interval > 0").groupBy(*_CLAIM, "n_interval").agg(*_interval_columns(end_ms))
    # By the token and not as the grant before: the clock of the broker may be behind that of the member.
    granted = told.where(_is(EventKind.LOCK_GRANTED) & (F.col("n") >= 0)).withColumnRenamed("version", "token")
    backlogs = granted.groupBy(*_CLAIM, "token").agg(F.min_by("n", F.struct("t_ms", "seq")).alias("backlog"))
    rows = rows.join(backlogs, [*_CLAIM, "token"], "left")
    return rows.drop("claim", "n_interval").withColumnRenamed("client", "owner")


_STEP_COLUMNS = ("t_ms", "seq", "kind", "cause", "version", "offset", "n", "detail")


def _is(kind: EventKind) -> Column:
    return F.col("kind") == kind.value


def _is_any(kinds: Sequence[EventKind]) -> Column:
    return F.col("kind").isin([kind.value for kind in kinds])


def _claims(told: DataFrame) -> DataFrame:
    """Each event of a member about a queue, with the number of its interval, and whether it begins or ends one.

    Of events at the same time those of the broker count first: it grants a lease before the member has it.
    """
    member = Window.partitionBy(*_CLAIM).orderBy("t_ms", "by_client", "seq")
    so_far = member.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    acquired, granted = _is(EventKind.QUEUE_ACQUIRED), _is(EventKind.LOCK_GRANTED)
    claimed = _latest(F.when(acquired, True).when(_is(EventKind.QUEUE_DROPPED), False), so_far)
    token = F.last(F.when(acquired | granted, F.col("version")), ignorenulls=True).over(so_far)
    steps = told.withColumns(
        {
            "claimed": claimed,
            "token": token,
        }
    )
    expired = _is(EventKind.LOCK_EXPIRED) & (F.col("version") == F.col("token"))
    leased = _latest(F.when(acquired | granted, True).when(expired, False), so_far)
    steps = steps.withColumn("owning", F.col("claimed") & leased)
    before = F.coalesce(F.lag("owning").over(member), F.lit(False))
    steps = steps.withColumns({"begins": F.col("owning") & ~before, "ends": ~F.col("owning") & before})
    return steps.withColumn("n_interval", F.sum(F.col("begins").cast("int")).over(so_far))


def _latest(value: Column, window: WindowSpec) -> Column:
    return F.coalesce(F.last(value, ignorenulls=True).over(window), F.lit(False))


def _interval_columns(end_ms: float) -> list[Column]:
    at_begin = {
        "from_ms": F.col("t_ms"),
        "began": F.when(_is(EventKind.QUEUE_ACQUIRED), "acquired").otherwise("resumed"),
        "cause": F.col("cause"),
        "token": F.col("version"),
        "start_offset": F.col("offset"),
    }
    at_end = {
        "ended": F.when(_is(EventKind.LOCK_EXPIRED), "expired").otherwise(F.col("detail")),
        "end_cause": F.col("cause"),
    }
    handed_out = _is(EventKind.MESSAGES_HANDED_OUT)
    return [
        *(F.max(F.when(F.col("begins"), value)).alias(name) for name, value in at_begin.items()),
        F.coalesce(F.max(F.when(F.col("ends"), F.col("t_ms"))), F.lit(float(end_ms))).alias("to_ms"),
        *(
            F.coalesce(F.max(F.when(F.col("ends"), value)), F.lit(missing)).alias(name)
            for (name, value), missing in zip(at_end.items(), ("open", ""), strict=True)
        ),
        F.min(F.when(_is(EventKind.FIRST_PULL), F.col("t_ms"))).alias("first_pull_ms"),
        F.min(F.when(_is(EventKind.FIRST_MESSAGE), F.col("t_ms"))).alias("first_message_ms"),
        F.coalesce(F.sum(F.when(handed_out, F.col("n"))), F.lit(0)).alias("handed_out"),
        F.greatest(F.max(F.when(F.col("begins"), F.col("offset"))), F.max(F.when(handed_out, F.col("offset")))).alias(
            "reach"
        ),
    ]


def hazards_of(ownership: DataFrame) -> DataFrame:
    """The table `hazards`: what each beginning of an interval of `ownership` cost.

    Returns:
        group, topic, broker, queue_id, cause, from_client (null for the first owner), to_client, from_ms, began;
        `moved`: whether the owner is another than the last one;
        `orphan_ms`: how long nobody had the queue before; `pause_ms`: that, and until the new owner's first pull;
        `double_ms`: how long this owner and exactly one of those before it had the queue;
        `redelivered`: messages that owners before had handed out and whose end was not committed, so that they come
        again; `duplicates`: how many of them have come again; `start_offset`: the first of them; `backlog`.
    """
    queue = Window.partitionBy(*QUEUE).orderBy("token", "from_ms", "owner")
    before = queue.rowsBetween(Window.unboundedPreceding, -1)
    rows = ownership.withColumns(
        {
            "from_client": F.last(F.when(F.col("began") == "acquired", F.col("owner")), ignorenulls=True).over(before),
            "last_end": F.max("to_ms").over(before),
            # An operator's reset makes offsets come again on purpose: what was handed out before it counts no more.
            "resets": F.coalesce(F.sum((F.col("ended") == "reset").cast("int")).over(before), F.lit(0)),
        }
    )
    rows = rows.withColumns(
        {
            "second_last_end": F.max(F.least("to_ms", F.coalesce("last_end", F.lit(float("-inf"))))).over(before),
            "reached": F.max(F.struct("resets", "reach")).over(before),
        }
    )
    counts = F.col("reached.resets") == F.col("resets")
    mark = F.when(counts, F.col("reached.reach")).otherwise(F.col("start_offset"))
    from_ms, moved = F.col("from_ms"), F.col("began") == "acquired"
    return rows.select(
        *QUEUE,
        "cause",
        "from_client",
        F.col("owner").alias("to_client"),
        "from_ms",
        "began",
        (moved & ~F.col("from_client").eqNullSafe(F.col("owner"))).alias("moved"),
        _positive(from_ms - F.col("last_end")).alias("orphan_ms"),
        _positive(F.coalesce("first_pull_ms", from_ms) - F.col("last_end")).alias("pause_ms"),
        (_overlap("last_end") - _overlap("second_last_end")).alias("double_ms"),
        _positive(mark - F.col("start_offset")).cast("long").alias("redelivered"),
        _positive(F.least(mark, F.col("reach")) - F.col("start_offset")).cast("long").alias("duplicates"),
        "start_offset",
        "backlog",
    )


def _positive(value: Column) -> Column:
    return F.greatest(F.coalesce(value, F.lit(0)), F.lit(0))


def _overlap(end: str) -> Column:
    """How long this interval lies before the end of others, if there are any."""
    return _positive(F.least(F.col("to_ms"), F.coalesce(F.col(end), F.lit(float("-inf")))) - F.col("from_ms"))
