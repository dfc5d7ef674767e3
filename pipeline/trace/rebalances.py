"""Computes the tables `rebalances` (each with its cause, passes, moves and cost) and `fairness` (loads after each).

A rebalance is everything with one cause: the first event about the change, the passes that it triggered on all members,
and the queues that moved in them. Two changes at the same time are two rebalances; a moved queue belongs to the one
whose cause its new owner names.
"""

from __future__ import annotations

from itertools import starmap

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from model.events import EventKind
from model.names import RETRY_PREFIX
from pipeline.trace.loads import Balance, LoadChange, Mark, balances
from pipeline.trace.ownership import is_kind

_MEMBERS = (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE)
_MOVES = (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED)


def rebalances_of(events: DataFrame, hazards: DataFrame) -> DataFrame:
    """The table `rebalances`, without `min_moves`, which `with_minimum_moves` adds.

    Returns:
        group, cause; `kind`, `detail`, `client`, `broker`: the change, as a broker saw it if one did;
        `trigger`: of the passes, in alphabetical order, joined by `+`; `members` afterwards (-1 if unknown);
        `began_ms`: time of the cause; `ended_ms`: when the last queue was acquired or dropped, or else the last pass
        ended; `convergence_ms`: between the two; `passes`; `moves`;
        `pause_ms`, `orphan_ms`, `double_ms`, `redelivered`, `duplicates`, `backlog`: those of its moves, summed;
        `pause_max_ms`. A periodic pass that changed nothing is left out.
    """
    joined = _causes_of(events).join(_costs(hazards), ["group", "cause"], "left")
    began_ms = F.coalesce("root.t_ms", "seen_ms")
    ended_ms = F.greatest(began_ms, F.coalesce("changed_ms", "passed_ms", began_ms))
    idle = (F.coalesce("seen.kind", "root.kind", F.lit("")).isin(EventKind.REBALANCE_BEGIN.value, "")) & (
        F.col("changes") == 0
    )
    return joined.where(~idle & ((F.col("passes") > 0) | (F.col("changes") > 0))).select(
        "group",
        "cause",
        *(F.coalesce(f"seen.{name}", f"root.{name}", F.lit("")).alias(name) for name in _WHAT),
        F.coalesce("trigger", F.lit("")).alias("trigger"),
        F.coalesce("last_seen.n", F.lit(-1)).alias("members"),
        began_ms.alias("began_ms"),
        ended_ms.alias("ended_ms"),
        (ended_ms - began_ms).alias("convergence_ms"),
        "passes",
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("moves", *_SUMS, "pause_max_ms")),
    )


_WHAT = ("kind", "detail", "client", "broker")
_SUMS = ("pause_ms", "orphan_ms", "double_ms", "redelivered", "duplicates", "backlog")


def _causes_of(events: DataFrame) -> DataFrame:
    """A row for each group and cause, with the events that name it as their cause."""
    of_passes = (EventKind.REBALANCE_BEGIN, EventKind.REBALANCE_END)
    parts = events.where(is_kind(*_MEMBERS, *of_passes, *_MOVES) & (F.col("group") != ""))
    of_data = is_kind(*_MOVES) & ~F.col("topic").startswith(RETRY_PREFIX)
    # Three aggregations, because with a single string among the aggregates Spark sorts all rows to group them.
    grouped = parts.groupBy("group", "cause").agg(
        F.min("t_ms").alias("seen_ms"),
        F.count(F.when(is_kind(EventKind.REBALANCE_END), 1)).alias("passes"),
        F.count(F.when(of_data, 1)).alias("changes"),
        F.max(F.when(of_data, F.col("t_ms"))).alias("changed_ms"),
        F.max(F.when(is_kind(EventKind.REBALANCE_END), F.col("t_ms"))).alias("passed_ms"),
    )
    triggers = F.split(F.split(F.col("detail"), " ")[0], r"\+")
    triggered = (
        events.where(is_kind(EventKind.REBALANCE_BEGIN))
        .groupBy("group", "cause")
        .agg(F.array_join(F.array_sort(F.array_distinct(F.flatten(F.collect_set(triggers)))), "+").alias("trigger"))
    )
    order = F.struct("t_ms", "node", "seq")
    members = (
        events.where(is_kind(*_MEMBERS))
        .groupBy("group", "cause")
        .agg(
            F.min(F.struct(order.alias("at"), *_WHAT)).alias("seen"),
            F.max(F.struct(order.alias("at"), F.col("n").alias("n"))).alias("last_seen"),
        )
    )
    roots = (
        events.where(F.col("cause") == F.concat("node", F.lit("/"), F.col("seq")))
        .groupBy("cause")
        .agg(F.min(F.struct("t_ms", *_WHAT)).alias("root"))
    )
    key = ["group", "cause"]
    return grouped.join(roots, "cause", "left").join(triggered, key, "left").join(members, key, "left")


def _costs(hazards: DataFrame) -> DataFrame:
    return hazards.groupBy("group", "cause").agg(
        F.sum(F.col("moved").cast("long")).alias("moves"),
        *(F.sum(name).alias(name) for name in _SUMS),
        F.max("pause_ms").alias("pause_max_ms"),
    )


# --- loads -----------------------------------------------------------------------------------------------------------

_FAIRNESS = (
    "group string, cause string, topic string, t_ms double, members long, queues long, min_moves long, jain double, "
    "spread long"
)


def fairness_of(ownership: DataFrame, rebalances: DataFrame, end_ms: float) -> DataFrame:
    """The table `fairness`: the loads at the end of each rebalance that moved a queue.

    Returns:
        group, cause, topic, t_ms, members, queues, min_moves, jain, spread; see `pipeline.trace.loads.Balance`.
    """
    # Spark's own window functions cannot do this: which members count changes from rebalance to rebalance.
    changes = ("`group`", "topic", "owner AS client", "false AS is_mark")
    gained = ownership.selectExpr(*changes, "from_ms AS t_ms", "1L AS n")
    closed = ownership.where((F.col("ended") != "open") & (F.col("to_ms") <= end_ms))
    lost = closed.selectExpr(*changes, "to_ms AS t_ms", "-1L AS n")
    leaver = F.when(is_kind(EventKind.MEMBER_LEAVE, EventKind.CLIENT_STOP), F.col("client"))
    marks = rebalances.where("moves > 0").select(
        "group",
        "cause",
        F.col("began_ms").alias("t_ms"),
        "ended_ms",
        F.col("members").cast("long").alias("n"),
        F.coalesce(leaver, F.lit("")).alias("client"),
        F.lit(True).alias("is_mark"),
    )
    rows = gained.unionByName(lost).unionByName(marks, allowMissingColumns=True)
    return rows.groupBy("group").applyInPandas(_balances_of_group, _FAIRNESS)


def _balances_of_group(rows: pd.DataFrame) -> pd.DataFrame:
    group = str(rows["group"].iloc[0])
    # Of changes at the same time losses come first, so that a moved queue does not count twice.
    changes = rows[~rows["is_mark"]].sort_values(["t_ms", "n"], kind="stable")
    marks = rows[rows["is_mark"]]
    found = balances(
        starmap(LoadChange, changes[["t_ms", "topic", "client", "n"]].itertuples(index=False, name=None)),
        [*starmap(Mark, marks[["cause", "t_ms", "ended_ms", "n", "client"]].itertuples(index=False, name=None))],
    )
    table = pd.DataFrame(list(found), columns=list(Balance._fields))
    table.insert(0, "group", group)
    return table


def with_minimum_moves(rebalances: DataFrame, fairness: DataFrame) -> DataFrame:
    """The table `rebalances` with `min_moves`: 0 where nothing moved."""
    least = fairness.groupBy("group", "cause").agg(F.sum("min_moves").alias("min_moves"))
    joined = rebalances.join(least, ["group", "cause"], "left")
    return joined.withColumn("min_moves", F.coalesce("min_moves", F.lit(0)))
