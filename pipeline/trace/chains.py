"""Events of a trace as a DataFrame for analyses of your own: ids that join with causes, and causal chains as rows.

    c1/7   t 100  MEMBER_JOIN                  chain c1/7, step 0, after 0 ms
    c2/3   t 104  REBALANCE_BEGIN  cause c1/7  chain c1/7, step 1, after 4 ms
    c2/4   t 109  QUEUE_ACQUIRED   cause c1/7  chain c1/7, step 2, after 9 ms

Every event names the root of its chain as its cause, not the event before it, so one join finds a whole chain.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def add_ids(events: DataFrame) -> DataFrame:
    """Add to the events of `source.trace_events` their `id`, which causes name, and `time`, `t_ms` as a timestamp."""
    time = (F.col("t_ms") / 1000).cast("timestamp")
    return events.withColumn("id", F.concat_ws("/", "node", "seq")).withColumn("at", time)


def chains(events: DataFrame) -> DataFrame:
    """Return the events of `add_ids`, each with its place in its causal chain.

    `chain` is the id of the root, `step` the place among the events of the chain, from 0, by their times with the root
    first, and `steps` their number. `root_kind` is the kind of the root, and `after_ms` the time since it; both are
    null if the trace does not have the root. An event that names no cause is the root of a chain.
    """
    of_chain = Window.partitionBy("chain")
    is_root = F.col("id") == F.col("chain")
    in_order = of_chain.orderBy(~is_root, "t_ms", "node", "seq")

    def of_root(column: str) -> Column:
        return F.max(F.when(is_root, F.col(column))).over(of_chain)

    with_chain = events.withColumn("chain", F.when(F.col("cause") == "", F.col("id")).otherwise(F.col("cause")))
    return (
        with_chain.withColumn("root_kind", of_root("kind"))
        .withColumn("after_ms", F.col("t_ms") - of_root("t_ms"))
        .withColumn("step", F.row_number().over(in_order) - 1)
        .withColumn("steps", F.count(F.lit(1)).over(of_chain))
    )
