"""DataFrames written to topics by Spark: real brokers, a real session."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from pipeline.spark.session import use_session
from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

MakeTopic = Callable[[int], str]
DELIVERIES = pytest.mark.parametrize("delivery", ["atLeastOnce", "exactlyOnce"])


def read(spark: SparkSession, cluster: ClusterProcesses, topic: str) -> DataFrame:
    reader = spark.read.format("rlab").option("nameServer", cluster.address).option("subscribe", topic)
    return reader.option("includeProperties", "true").load()


def write(frame: DataFrame, cluster: ClusterProcesses, **options: str) -> None:
    writer = frame.write.format("rlab").mode("append").option("nameServer", cluster.address)
    writer.options(**options).save()


def numbers(spark: SparkSession, cluster: ClusterProcesses, topic: str) -> list[int]:
    return sorted(int(row.body) for row in read(spark, cluster, topic).select("body").collect())


@DELIVERIES
def test_rows_become_messages_with_everything_that_their_columns_say(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, delivery: str
) -> None:
    one, two = make_topic(1), make_topic(1)
    rows = [(one, "k1 k2", "red", "text", {"p": "q"}), (two, None, None, "plain", None)]
    frame = spark.createDataFrame(
        rows, "topic string, key string, tag string, body string, properties map<string,string>"
    )
    write(frame, cluster, delivery=delivery)
    found = [read(spark, cluster, topic).first() for topic in (one, two)]
    assert [tuple(row[name] for name in ("key", "tag", "body", "properties")) for row in found if row] == [
        ("k1 k2", "red", b"text", {"p": "q"}),
        (None, None, b"plain", {}),
    ]


@DELIVERIES
def test_every_row_arrives_once_and_equal_keys_in_one_queue_in_their_order(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, delivery: str
) -> None:
    topic = make_topic(4)
    frame = spark.range(0, 30_000, 1, 2).select(col("id").cast("string").alias("body"), expr("'k' || id % 50 as key"))
    write(frame, cluster, topic=topic, delivery=delivery)
    found = read(spark, cluster, topic).orderBy("queue_id", "offset").select("queue_id", "key", "body").collect()
    assert sorted(int(row.body) for row in found) == list(range(30_000))
    queue_of = {row.key: row.queue_id for row in found}
    assert len(set(queue_of.values())) == 4
    assert all(queue_of[row.key] == row.queue_id for row in found)
    for partition in (range(15_000), range(15_000, 30_000)):
        of_key = [int(row.body) for row in found if row.key == "k7" and int(row.body) in partition]
        assert of_key == sorted(of_key)


def test_rows_without_a_key_take_turns_and_rows_with_a_queue_go_there(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic
) -> None:
    turns, named = make_topic(3), make_topic(3)
    write(spark.range(0, 900, 1, 1).select(expr("string(id) as body")), cluster, topic=turns)
    counts = read(spark, cluster, turns).groupBy("queue_id").count().collect()
    assert sorted(tuple(row) for row in counts) == [(0, 300), (1, 300), (2, 300)]
    frame = spark.range(0, 900, 1, 1).select(expr("string(id) as body"), expr("2 * (id % 2) as queue_id"))
    write(frame, cluster, topic=named, partitioner="queueId")
    write(frame.withColumn("key", col("body")), cluster, topic=named)
    assert read(spark, cluster, named).where("queue_id != 2 * (int(string(body)) % 2)").count() == 0


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ("id", {}, r"the rlab sink has no column 'id': select the columns to send, of body, topic"),
        ("string(null) as body", {}, "column body is null in 5 rows of 5"),
        (
            "string(id) as body, 9 as queue_id",
            {},
            "names queue 9 in a row; topic .* has 0 to 1",
        ),
        ("string(id) as body, 'a||b' as tag", {}, r"column tag has '\|\|' in a row"),
        ("string(id) as body", {"topic": "nowhere"}, "topic 'nowhere' does not exist"),
        ("string(id) as body", {"headers": "x"}, "no option 'headers': each row has its own; write column properties"),
    ],
)
def test_what_cannot_be_written_is_reported_in_the_words_of_the_sink(
    spark: SparkSession,
    cluster: ClusterProcesses,
    make_topic: MakeTopic,
    columns: str,
    options: dict[str, str],
    why: str,
) -> None:
    frame = spark.range(0, 5, 1, 1).selectExpr(*columns.split(", "))
    with pytest.raises(PySparkException, match=why):
        write(frame, cluster, **{"topic": make_topic(2), **options})


def test_a_thread_of_its_own_writes_once_it_has_taken_the_session(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    frame = spark.range(0, 5, 1, 1).selectExpr("string(id) as body")
    with ThreadPoolExecutor(1) as thread:
        # A defect of pyspark 4.3. When this is no longer an error, `use_session` can go.
        with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
            thread.submit(write, frame, cluster, topic=topic).result()
        thread.submit(use_session, spark).result()
        thread.submit(write, frame, cluster, topic=topic).result()
    assert numbers(spark, cluster, topic) == list(range(5))


def test_a_topic_is_not_overwritten(spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic) -> None:
    writer = spark.range(3).selectExpr("string(id) as body").write.format("rlab").mode("overwrite")
    with pytest.raises(PySparkException, match="only appended to"):
        writer.option("nameServer", cluster.address).option("topic", make_topic(1)).save()


def test_a_failed_write_leaves_nothing_when_it_is_exactly_once(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    body = "if(id = 19999, raise_error('the last row is bad'), string(id)) as body"
    with pytest.raises(PySparkException, match="the last row is bad"):
        write(spark.range(0, 20_000, 1, 2).selectExpr(body), cluster, topic=topic, delivery="exactlyOnce")
    assert read(spark, cluster, topic).count() == 0


def copy(frame: DataFrame, cluster: ClusterProcesses, checkpoint: Path, **options: str) -> None:
    """Stream what there is now."""
    writer = frame.writeStream.format("rlab").option("nameServer", cluster.address).options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def source_of(spark: SparkSession, cluster: ClusterProcesses, topic: str) -> DataFrame:
    stream = spark.readStream.format("rlab").option("nameServer", cluster.address).option("subscribe", topic)
    return stream.option("startingOffsets", "earliest").load().select("body", "tag")


def test_a_stream_copies_a_topic_and_goes_on_from_its_checkpoint(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(2)
    for first in (0, 500):
        cluster.send_numbers(source, range(first, first + 500))
        copy(source_of(spark, cluster, source), cluster, tmp_path / "checkpoint", topic=target)
        assert numbers(spark, cluster, target) == list(range(first + 500))


def test_a_batch_that_is_run_again_after_its_commit_is_not_published_again(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(2)
    frame, commits = source_of(spark, cluster, source), tmp_path / "checkpoint" / "commits"
    for first in (0, 1_000):
        cluster.send_numbers(source, range(first, first + 1_000))
        copy(frame, cluster, tmp_path / "checkpoint", topic=target, delivery="exactlyOnce")
        # As if Spark had been killed before it noted that the batch is done: the next run begins with it.
        last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink()
    copy(frame, cluster, tmp_path / "checkpoint", topic=target, delivery="exactlyOnce")
    assert numbers(spark, cluster, target) == list(range(2_000))
