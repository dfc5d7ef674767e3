"""spark: micro-batches, topic to topic and batch writes, alone and beside Spark's connector for Kafka.

Kafka takes part if `make peers` has copied its broker and the connector: in the same session, with the same number of
queues or partitions, the same bytes, and in turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from testbed.bench.kit.filling import fill_topic
from testbed.bench.kit.processes import create_topics, temporary_folder
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, in_turns, make_result, percentile
from testbed.bench.peers.systems.kafka_server import JARS, PARTITIONS, kafka_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTOR = Path(sys.prefix) / "peers" / "spark-kafka"
"""The folder to which `make peers` copies the jars of the connector."""
MICRO_QUEUES = (PARTITIONS, 1_000)
MICRO_ROWS = (10_000, 25_000, 100_000)
_BESIDE_ROWS = 50_000
_BODY = b"x" * 256
_KEPT_MICROS = 0.75
"""Part of the batches of a stream whose times count: the first ones also start the query."""

_T = TypeVar("_T")


@asynccontextmanager
async def running_session(master: str, jars: Sequence[Path] = ()) -> AsyncIterator[SparkSession]:
    """Run a session while the block runs, with the classes of some jars.

    Cancellation: the session is stopped.
    """
    from pipeline.spark.session import spark_session

    conf = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    stack = ExitStack()
    try:
        manager = spark_session("rlab bench", master=master, driver_memory="2g", conf=conf)
        yield await to_thread.run_sync(stack.enter_context, manager)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(stack.close)


async def blocking(spark: SparkSession, work: Callable[[], _T]) -> _T:
    """Run a call of Spark in a thread.

    Cancellation: the call goes on, and fails as soon as the session is stopped.
    """
    from pipeline.spark.session import use_session

    def run() -> _T:
        use_session(spark)
        return work()

    return await to_thread.run_sync(run, abandon_on_cancel=True)


class SparkFormat(NamedTuple):
    """A format of Spark's with its options; `body` is its column of bytes."""

    name: str
    options: Mapping[str, str]
    body: str


def connector_jars() -> list[Path]:
    """The jars of the connector; empty if it or Kafka's broker is missing."""
    return sorted(CONNECTOR.glob("*.jar")) if any(JARS.glob("*.jar")) else []


async def measure_micro_batches(
    spark: SparkSession, name_server: str, folder: Path, sizes: Sizes, progress: Progress
) -> list[Result]:
    """Measure streams that read small batches, to no sink.

    Cancellation: running queries go on until the session is stopped.
    """
    side, results = SparkFormat("rlab", {"nameServer": name_server}, "body"), list[Result]()
    for queues in MICRO_QUEUES:
        topic = f"micro-{queues}"
        await create_topics(name_server, {topic: queues})
        await fill_topic(name_server, _BODY, sizes.spark_rows // 2, progress, topic)
        for rows in MICRO_ROWS:
            progress(f"micro-batches of {rows:,} rows, {queues:,} queues")
            limit = min(rows, sizes.spark_rows // 4)
            run = partial(_micro_batches, spark, side, topic, limit, folder / f"{topic}-{rows}")
            results.append(Result(name=f"spark-micro-{queues}-{rows}", value=await blocking(spark, run), unit="rows/s"))
    return results


async def measure_beside_kafka(
    spark: SparkSession, name_server: str, folder: Path, sizes: Sizes, progress: Progress
) -> list[Result]:
    """Measure micro-batches, topic to topic and batch writes in turns with Kafka, in a session with the connector.

    Cancellation: as for `measure_micro_batches`; Kafka is stopped.
    """
    async with temporary_folder() as data, kafka_process(data) as address:
        sides = (
            SparkFormat("rlab", {"nameServer": name_server}, "body"),
            SparkFormat("kafka", {"kafka.bootstrap.servers": address}, "value"),
        )
        await create_topics(name_server, {"beside": PARTITIONS})
        progress("topics of both systems are filled")
        for side in sides:
            await blocking(spark, partial(write_rows, spark, side, "beside", sizes.spark_rows // 2))
        numbers = iter(range(10**9))

        def round_of(side: SparkFormat, measure: Callable[[SparkFormat, int], float]) -> Round:
            async def run() -> float:
                number = next(numbers)
                if side.name == "rlab":
                    await create_topics(name_server, {f"beside-{number}": PARTITIONS})
                progress(f"{side.name}: {number}")
                return await blocking(spark, partial(measure, side, number))

            return run

        def micro(side: SparkFormat, number: int) -> float:
            rows = min(_BESIDE_ROWS, sizes.spark_rows // 4)
            return _micro_batches(spark, side, "beside", rows, folder / f"beside-{number}")

        def copy(side: SparkFormat, number: int) -> float:
            return _copy(spark, side, f"beside-{number}", _BESIDE_ROWS, folder / f"beside-{number}")

        def write(side: SparkFormat, number: int) -> float:
            return write_rows(spark, side, f"beside-{number}", sizes.spark_rows // 2)

        results: list[Result] = []
        for name, measure in (("micro", micro), ("copy", copy), ("write", write)):
            ours, kafkas = (round_of(side, measure) for side in sides)
            turns = await in_turns(ours, kafkas, sizes.passes)
            result = make_result(f"spark-{name}-kafka", turns, "against Spark's connector for Kafka")
            results.append(replace(result, unit="rows/s"))
            progress(f"{result.name}: {result.ratio:.2f} x Kafka's connector")
        return results


def write_rows(spark: SparkSession, side: SparkFormat, topic: str, rows: int) -> float:
    """Write rows to a topic; returns the rows per second."""
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(f"lpad(string(id), {len(_BODY)}, 'x') as {side.body}")
    started = time.perf_counter()
    frame.write.format(side.name).options(**side.options, topic=topic).mode("append").save()
    return rows / (time.perf_counter() - started)


def _stream(spark: SparkSession, side: SparkFormat, topic: str, rows: int) -> DataFrame:
    reader = spark.readStream.format(side.name).options(**side.options, subscribe=topic)
    return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(rows)).load()


def _micro_batches(spark: SparkSession, side: SparkFormat, topic: str, rows: int, folder: Path) -> float:
    """Rows per second of the median batch of a stream that reads a topic to no sink."""
    writer = _stream(spark, side, topic, rows).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    # Without small rests: Kafka's connector rounds the rows of a partition down, and reads the rest in another batch.
    batches = [batch for batch in query.recentProgress if batch.numInputRows > rows // 2]
    counted = batches[-max(1, int(len(batches) * _KEPT_MICROS)) :]
    return percentile([batch.numInputRows / batch.batchDuration * 1000 for batch in counted], 0.5)


def _copy(spark: SparkSession, side: SparkFormat, target: str, rows: int, folder: Path) -> float:
    """Rows per second of a stream from the topic of all rounds to another topic."""
    writer = _stream(spark, side, "beside", rows).select(side.body).writeStream.format(side.name)
    writer = writer.options(**side.options, topic=target, checkpointLocation=str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    return sum(batch.numInputRows for batch in batches) / sum(batch.batchDuration for batch in batches) * 1000
