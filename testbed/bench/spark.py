"""spark: rows per second that a session with two concurrent tasks reads and writes, and its latency for a message.

Everything runs on this machine: the name server, the broker, the JVM and its Python workers. Every figure is measured
on a warm JVM; its first query takes seconds more.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from client import Message, Producer
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.bench.kit.processes import cluster_processes, create_topics, temporary_folder
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, in_turns, make_result, percentile
from testbed.bench.spark_streams import (
    blocking,
    connector_jars,
    measure_beside_kafka,
    measure_micro_batches,
    running_session,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 4
SPARK_BODY = b"x" * 100
LOCAL = "local[2]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
ROWS_PER_BATCH = 250_000
TRICKLE_INTERVAL_S = 0.05
CORES_FOR_TWO_EXECUTORS = 4
"""Two executors, each a JVM and a Python worker, with the broker beside them."""
_TARGET = "copy"
_TRICKLE = "trickle"


async def bench_spark(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure the source and the sink."""
    async with cluster_processes({TOPIC: QUEUES}) as cluster, temporary_folder() as folder:
        await fill_topic(cluster.name_server, SPARK_BODY, sizes.spark_rows, progress)
        progress("the session starts")
        async with running_session(LOCAL, connector_jars()) as spark:
            results = await measure_session(spark, cluster.name_server, folder, sizes, progress)
            if connector_jars():
                results += await measure_beside_kafka(spark, cluster.name_server, folder, sizes, progress)
            else:
                progress("Kafka is left out: 'make peers' gets it")
        progress("two executors start")
        async with running_session(TWO_EXECUTORS) as spark:
            return [*results, await _two_executors(spark, cluster.name_server, sizes, progress)]


async def measure_session(
    spark: SparkSession, name_server: str, folder: Path, sizes: Sizes, progress: Progress
) -> list[Result]:
    """Measure all figures of one session.

    The cluster's `TOPIC` has `sizes.spark_rows` messages; checkpoints and tables go to `folder`.

    Cancellation: running queries go on until the session is stopped.
    """
    rows = sizes.spark_rows
    reading = _reading(spark, _topic(spark.read, name_server).load(), "all columns", sizes, progress)
    reads = [await reading() for _ in range(sizes.passes + 1)]
    progress("to Parquet, as a stream")
    parquet = [
        await blocking(spark, partial(_stream_to_parquet, spark, name_server, folder / f"parquet-{n}"))
        for n in range(sizes.passes + 1)
    ]
    results = [
        Result(name="spark-read", value=_median(reads[1:]), unit="rows/s"),
        Result(name="spark-parquet", value=_median(parquet[1:]), unit="rows/s"),
    ]
    for name, delivery in (("spark-write", "atLeastOnce"), ("spark-write-once", "exactlyOnce")):
        progress(f"to a topic, {delivery}")
        rates = []
        for n in range(sizes.passes + 1):
            await create_topics(name_server, {f"{name}-{n}": QUEUES})
            write = partial(_write, spark, name_server, f"{name}-{n}", rows // 2, delivery)
            rates.append(await blocking(spark, write))
        results.append(Result(name=name, value=_median(rates[1:]), unit="rows/s"))
    results += await measure_micro_batches(spark, name_server, folder, sizes, progress)
    return [*results, *await _trickle(spark, name_server, folder, sizes, progress)]


def _reading(spark: SparkSession, frame: DataFrame, label: str, sizes: Sizes, progress: Progress) -> Round:
    """A round that reads all rows of a frame."""

    async def run() -> float:
        progress(f"read, {label}")
        return await blocking(spark, partial(_read, frame, sizes.spark_rows))

    return run


async def _two_executors(spark: SparkSession, name_server: str, sizes: Sizes, progress: Progress) -> Result:
    frame = _topic(spark.read, name_server).load()
    two = _reading(spark, frame, "two executors", sizes, progress)
    # One task reads queue after queue, so the other executor is idle.
    single = _reading(spark, frame.coalesce(1), "one executor", sizes, progress)
    # A new executor starts its Python with its first task.
    await two()
    turns = await in_turns(two, single, sizes.passes)
    cores = usable_cores()
    enough = (
        "" if cores >= CORES_FOR_TWO_EXECUTORS else f", too few for two executors, which need {CORES_FOR_TWO_EXECUTORS}"
    )
    return _with_rows(make_result("spark-executors", turns, f"{cores} cores{enough}"))


async def _trickle(
    spark: SparkSession, name_server: str, folder: Path, sizes: Sizes, progress: Progress
) -> list[Result]:
    """Latency from the send of a message to `foreachBatch`, with one message every 50 ms."""
    await create_topics(name_server, {_TRICKLE: QUEUES})
    latencies_ms: list[float] = []

    def take(batch: DataFrame, number: int) -> None:
        bodies = [row.body for row in batch.select("body").collect()]
        seen_ms = time.time() * 1000
        latencies_ms.extend(seen_ms - float(body) for body in bodies)

    stream = _topic(spark.readStream, name_server, _TRICKLE, startingOffsets="earliest").load()
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "trickle"))
    query = await blocking(spark, writer.start)
    try:
        async with Producer(name_server) as producer:
            # Code of a batch is compiled during the first fifty or so; a stream that runs for days has that behind it.
            warm = 2 * sizes.trickle
            for n in range(warm + sizes.trickle):
                progress(f"trickle: {n} of {warm + sizes.trickle} messages")
                await producer.send(Message(_TRICKLE, str(time.time() * 1000).encode()))
                await anyio.sleep(TRICKLE_INTERVAL_S)
        await blocking(spark, query.processAllAvailable)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(query.stop)
    counted = latencies_ms[warm:]
    return [
        Result(name="spark-trickle-p50", value=percentile(counted, 0.5), unit="ms"),
        Result(name="spark-trickle-p95", value=percentile(counted, 0.95), unit="ms", note="from send to foreachBatch"),
    ]


def _topic(reader: Any, name_server: str, topic: str = TOPIC, **options: str) -> Any:
    """A reader of a topic with the common options, from `spark.read` or `spark.readStream`."""
    return reader.format("rlab").option("nameServer", name_server).option("subscribe", topic).options(**options)


def _read(frame: DataFrame, rows: int) -> float:
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - started)


def _stream_to_parquet(spark: SparkSession, name_server: str, folder: Path) -> float:
    stream = _topic(spark.readStream, name_server, startingOffsets="earliest", maxOffsetsPerTrigger=str(ROWS_PER_BATCH))
    writer = stream.load().writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    rows = sum(int(batch.numInputRows) for batch in batches)
    return rows / sum(int(batch.batchDuration) for batch in batches) * 1000


def _write(spark: SparkSession, name_server: str, topic: str, rows: int, delivery: str) -> float:
    frame = spark.range(0, rows, 1, QUEUES).selectExpr(f"lpad(string(id), {len(SPARK_BODY)}, 'x') as body")
    writer = frame.write.format("rlab").option("nameServer", name_server).option("topic", topic)
    started = time.perf_counter()
    writer.option("delivery", delivery).mode("append").save()
    return rows / (time.perf_counter() - started)


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _median(rates: list[float]) -> float:
    return percentile(rates, 0.5)


def _with_rows(result: Result) -> Result:
    return replace(result, unit="rows/s")
