"""How long a report takes for long traces: `python -m tests.spark.trace_scale 1000000 10000000`. No test; run it alone.

The trace is made by Spark as Parquet: ten groups of a hundred queues and twenty members each, in which a member joins
every second and every queue moves, with ten events for each move and two for each member's pass.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from model.events import Event, EventKind
from pipeline.report.job import write_report
from pipeline.spark.session import spark_session
from pipeline.trace.source import EVENT_SCHEMA, read_files

GROUPS, QUEUES, MEMBERS = 10, 100, 20
EVENTS_OF_A_MOVE = 10
T0 = 1_700_000_000_000.0


def trace(spark: SparkSession, events: int) -> DataFrame:
    rounds = max(1, events // (GROUPS * (QUEUES * EVENTS_OF_A_MOVE + 2 * MEMBERS + 1)))
    moves = spark.range(rounds * GROUPS * QUEUES).select(
        F.expr(f"id div {GROUPS * QUEUES}").alias("round"),
        F.expr(f"(id div {QUEUES}) % {GROUPS}").alias("g"),
        F.expr(f"id % {QUEUES}").alias("q"),
    )
    old, new = _member(F.col("q") + F.col("round") - 1), _member(F.col("q") + F.col("round"))
    at, offset = F.col("q") % 50 + 5, F.col("round") * 100
    late = F.lit("waited_ms=4.5 max_ms=20.0")
    reported = [
        _event(at, old, EventKind.QUEUE_DROPPED, 0, old, version=F.col("round") - 1, detail=F.lit("revoked")),
        _event(at + 3, _broker(), EventKind.LOCK_GRANTED, 1, new, version=F.col("round"), offset=offset, n=F.lit(20)),
        _event(at + 4, new, EventKind.QUEUE_ACQUIRED, 2, new, version=F.col("round"), offset=offset),
        _event(at + 5, new, EventKind.FIRST_PULL, 3, new, version=F.col("round"), offset=offset),
        _event(at + 6, new, EventKind.FIRST_MESSAGE, 4, new, version=F.col("round"), offset=offset),
        *(
            _event(
                at + 200 * n,
                new,
                EventKind.MESSAGES_HANDED_OUT,
                4 + n,
                new,
                n=F.lit(34),
                offset=offset + 34 * n,
                detail=late,
            )
            for n in (1, 2, 3)
        ),
        *(
            _event(at + 250 * n, _broker(), EventKind.OFFSET_COMMITTED, 8 + n, new, n=F.lit(3), offset=offset + 30 * n)
            for n in (1, 2)
        ),
    ]
    passes = spark.range(rounds * GROUPS * MEMBERS).select(
        F.expr(f"id div {GROUPS * MEMBERS}").alias("round"),
        F.expr(f"(id div {MEMBERS}) % {GROUPS}").alias("g"),
        F.expr(f"id % {MEMBERS}").alias("q"),
    )
    me = _member(F.col("q"))
    looks = [
        _event(F.lit(2), me, EventKind.REBALANCE_BEGIN, 12, me, detail=F.lit("NOTIFY"), queue=False),
        _event(
            F.lit(70), me, EventKind.REBALANCE_END, 13, me, n=F.lit(5), detail=F.lit("NOTIFY balanced"), queue=False
        ),
    ]
    roots = passes.where("q = 0").select(_root())
    parts = [
        moves.select(F.explode(F.array(*reported)).alias("e")),
        passes.select(F.explode(F.array(*looks)).alias("e")),
        roots,
    ]
    return parts[0].unionAll(parts[1]).unionAll(parts[2]).select("e.*")


def _member(number: Column) -> Column:
    return F.concat(F.lit("10.0.0.1@g"), F.col("g"), F.lit("m"), F.pmod(number, F.lit(MEMBERS)))


def _broker() -> Column:
    return F.concat(F.lit("broker-"), F.col("g"))


def _event(
    at: Column, node: Column, kind: EventKind, number: int, client: Column, *, queue: bool = True, **columns: Column
) -> Column:
    values: dict[str, Column] = {
        "t_ms": F.lit(T0) + F.col("round") * 1_000 + at,
        "node": node,
        "seq": F.col("round") * 10_000 + F.col("q") * 16 + number + 2,
        "kind": F.lit(kind.value),
        "cause": F.concat(_broker(), F.lit("/"), F.col("round") * 10_000 + 1),
        "group": F.concat(F.lit("group-"), F.col("g")),
        "client": client,
    }
    if queue:
        values |= {"topic": F.lit("orders"), "broker": _broker(), "queue_id": F.col("q")}
    return _struct(values | columns)


def _root() -> Column:
    values = {
        "t_ms": F.lit(T0) + F.col("round") * 1_000,
        "node": _broker(),
        "seq": F.col("round") * 10_000 + 1,
        "kind": F.lit(EventKind.MEMBER_JOIN.value),
        "cause": F.concat(_broker(), F.lit("/"), F.col("round") * 10_000 + 1),
        "group": F.concat(F.lit("group-"), F.col("g")),
        "client": _member(F.col("round")),
        "n": F.lit(MEMBERS),
    }
    return _struct(values)


def _struct(values: dict[str, Column]) -> Column:
    columns = [
        values.get(field.name, F.lit(Event._field_defaults.get(field.name))).cast(field.dataType).alias(field.name)
        for field in EVENT_SCHEMA
    ]
    return F.struct(*columns).alias("e")


def main() -> None:
    for wanted in map(int, sys.argv[1:]):
        with (
            tempfile.TemporaryDirectory() as directory,
            spark_session("scale", master="local[2]", driver_memory="3g") as spark,
        ):
            source = Path(directory, "trace.parquet")
            trace(spark, wanted).write.parquet(str(source))
            began = last = time.perf_counter()

            def progress(step: str) -> None:
                nonlocal last
                say(f"    {time.perf_counter() - last:6.1f} s, then {step}")
                last = time.perf_counter()

            report = write_report(
                read_files(spark, [source]), Path(directory, "out"), files=[source], progress=progress
            )
            elapsed = time.perf_counter() - began
            moves = sum(group.totals.moves for group in report.groups)
            say(f"{report.events:,} events, {moves:,} moves: {elapsed:.1f} s, {report.events / elapsed:,.0f} events/s")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
