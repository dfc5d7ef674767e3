"""Computes the tables `rebalances` (each with its cause, passes, moves and cost) and `fairness` (loads after each).

A rebalance is everything with one cause: the first event about the change, the passes that it triggered on all members,
and the queues that moved in them. Two changes at the same time are two rebalances; a moved queue belongs to the one
whose cause its new owner names.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.events import EventKind
from model.names import RETRY_PREFIX
from pipeline.trace.loads import Balance, LoadChange, Mark, balances

_MEMBERS = (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE)
_PARTS = (
    *_MEMBERS,
    EventKind.REBALANCE_BEGIN,
    EventKind.REBALANCE_END,
    EventKind.QUEUE_ACQUIRED,
    EventKind.QUEUE_DROPPED,
)
_CHANGES = (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED)


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
    parts = events.where(F.col("kind").isin([kind.value for kind in _PARTS]) & (F.col("group") != ""))
    of_data = F.col("kind").isin([kind.value for kind in _CHANGES]) & ~F.col("topic").startswith(RETRY_PREFIX)
    # Three aggregations, because with a single string among the aggregates Spark sorts all rows to group them.
    grouped = parts.groupBy("group", "cause").agg(
        F.min("t_ms").alias("seen_ms"),
        F.count(F.when(_is(EventKind.REBALANCE_END), 1)).alias("passes"),
        F.count(F.when(of_data, 1)).alias("changes"),
        F.max(F.when(of_data, F.col("t_ms"))).alias("changed_ms"),
        F.max(F.when(_is(EventKind.REBALANCE_END), F.col("t_ms"))).alias("passed_ms"),
    )
    triggers = F.split(F.split(F.col("detail"), " ")[0], r"\+")
    triggered = (
        events.where(_is(EventKind.REBALANCE_BEGIN))
        .groupBy("group", "cause")
        .agg(F.array_join(F.array_sort(F.array_distinct(F.flatten(F.collect_set(triggers)))), "+").alias("trigger"))
    )
    order = F.struct("t_ms", "node", "seq")
    members = (
        events.where(F.col("kind").isin([kind.value for kind in _MEMBERS]))
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


def _is(kind: EventKind) -> Column:
    return F.col("kind") == kind.value


def _costs(hazards: DataFrame) -> DataFrame:
    return hazards.groupBy("group", "cause").agg(
        F.sum(F.col("moved").cast("long")).alias("moves"),
        *(F.sum(name).alias(name) for name in _SUMS),
        F.max("pause_ms").alias("pause_max_ms"),
    )


# --- loads -----------------------------------------------------------------------------------------------------------

_INPUT = ("group", "t_ms", "is_mark", "topic", "client", "n", "cause", "ended_ms")
_FAIRNESS = (
    "group string, cause string, topic string, t_ms double, members long, queues long, min_moves long, jain double, "
    "spread long"
)


def fairness_of(ownership: DataFrame, rebalances: DataFrame, end_ms: float) -> DataFrame:
    """The table `fairness`: the loads at the end of each rebalance that moved a queue.

    Returns:
        group, cause, topic, t_ms, members, queues, min_moves, jain, spread; see `trace_loads.Balance`.
    """
    # Spark's own window functions cannot do this: which members count changes from rebalance to rebalance.
    gained = _rows(ownership, t_ms="from_ms", is_mark=F.lit(False), topic="topic", client="owner", n=F.lit(1))
    closed = ownership.where((F.col("ended") != "open") & (F.col("to_ms") <= end_ms))
    lost = _rows(closed, t_ms="to_ms", is_mark=F.lit(False), topic="topic", client="owner", n=F.lit(-1))
    leaver = F.when(F.col("kind").isin(EventKind.MEMBER_LEAVE.value, EventKind.CLIENT_STOP.value), F.col("client"))
    marks = _rows(
        rebalances.where("moves > 0"),
        t_ms="began_ms",
        is_mark=F.lit(True),
        client=F.coalesce(leaver, F.lit("")),
        n="members",
        cause="cause",
        ended_ms="ended_ms",
    )
    rows = reduce(DataFrame.unionByName, (gained, lost, marks))
    return rows.groupBy("group").applyInPandas(_balances_of_group, _FAIRNESS)


def _rows(table: DataFrame, **columns: str | Column) -> DataFrame:
    missing = {"topic": F.lit(None), "cause": F.lit(None), "ended_ms": F.lit(None)}
    named = {name: F.col(value) if isinstance(value, str) else value for name, value in columns.items()}
    values = {**missing, **named, "group": F.col("group")}
    return table.select(
        *(values[name].cast("long").alias(name) if name == "n" else values[name].alias(name) for name in _INPUT)
    )


def _balances_of_group(rows: pd.DataFrame) -> pd.DataFrame:
    group = str(rows["group"].iloc[0])
    # Of changes at the same time losses come first, so that a moved queue does not count twice.
    changes = rows[~rows["is_mark"]].sort_values(["t_ms", "n"], kind="stable")
    marks = rows[rows["is_mark"]]
    columns = ("cause", "t_ms", "ended_ms", "n", "client")
    found = balances(
        _changes(changes), [Mark(*values) for values in zip(*(marks[name].tolist() for name in columns), strict=True)]
    )
    table = pd.DataFrame(list(found), columns=list(Balance._fields))
    table.insert(0, "group", group)
    return table


def _changes(rows: pd.DataFrame) -> Iterator[LoadChange]:
    columns = (rows[name].tolist() for name in ("t_ms", "topic", "client", "n"))
    return (LoadChange(*values) for values in zip(*columns, strict=True))


def with_minimum_moves(rebalances: DataFrame, fairness: DataFrame) -> DataFrame:
    """The table `rebalances` with `min_moves`: 0 where nothing moved."""
    least = fairness.groupBy("group", "cause").agg(F.sum("min_moves").alias("min_moves"))
    joined = rebalances.join(least, ["group", "cause"], "left")
    return joined.withColumn("min_moves", F.coalesce("min_moves", F.lit(0)))
