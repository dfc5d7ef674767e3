"""Topics read by Spark, as a stream: real brokers, real checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pipeline.source.progress import committed_progress, skipped_rows
from pipeline.spark.session import register_source, source_environment
from tests.spark.refusals import refusal
from tests.spark.spark_cluster import ClusterProcesses, cluster_processes
from tests.tcp.rlab_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process]

MakeTopic = Callable[[int], str]
DONE_S = 120


def stream(spark: SparkSession, cluster: ClusterProcesses, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("rlab").option("nameServer", cluster.address).option("subscribe", topic)
    return reader.options(**options).load()


def to_parquet(frame: DataFrame, folder: Path) -> DataStreamWriter:
    return frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))


def run_to_end(frame: DataFrame, folder: Path) -> list[Any]:
    """Write what is there now; returns the progress of each batch."""
    query = to_parquet(frame, folder).trigger(availableNow=True).start(str(folder / "table"))
    assert query.awaitTermination(DONE_S)
    return [progress for progress in query.recentProgress if progress.numInputRows]


def written(spark: SparkSession, folder: Path) -> list[int]:
    """Through Spark, which knows the files that count; the folder may hold others."""
    return sorted(int(row.body) for row in spark.read.parquet(str(folder / "table")).collect())


def ends(query: StreamingQuery) -> dict[str, int]:
    """Where the last batch ended, queue id -> offset."""
    progress = query.lastProgress
    if progress is None or progress.sources[0].endOffset == "None":
        return {}
    (brokers,) = json.loads(progress.sources[0].endOffset).values()
    offsets = dict(brokers["broker-a"])
    assert offsets.pop("topic_id") > 0
    return offsets


def test_what_is_wrong_with_a_stream_is_the_last_line_of_its_error_and_already_of_load_if_it_can_be(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    assert refusal(lambda: stream(spark, cluster, topic, **{"kafka.group.id": "g"})).endswith(
        "the rlab source has no option 'kafka.group.id': that is an option of Kafka; use groupId"
    )
    ending = stream(spark, cluster, topic, endingOffsets="latest")
    assert refusal(lambda: run_to_end(ending, tmp_path / "ending")).endswith(
        "ConfigError: option endingOffsets is for a batch read: leave it out here"
    )
    assert "topic 'nowhere' does not exist" in refusal(
        lambda: run_to_end(stream(spark, cluster, "nowhere"), tmp_path / "nowhere")
    )


def test_what_is_there_now_is_read_in_small_batches_and_the_rest_by_the_next_run(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(3)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "400"}
    cluster.send_numbers(topic, range(1_000))
    batches = run_to_end(stream(spark, cluster, topic, **options), tmp_path)
    assert [batch.numInputRows for batch in batches] == [400, 400, 200]
    assert written(spark, tmp_path) == list(range(1_000))
    cluster.send_numbers(topic, range(1_000, 1_100))
    assert [batch.numInputRows for batch in run_to_end(stream(spark, cluster, topic, **options), tmp_path)] == [100]
    assert run_to_end(stream(spark, cluster, topic, **options), tmp_path) == [], "nothing new"
    assert written(spark, tmp_path) == list(range(1_100))


def test_a_running_stream_takes_what_comes_and_a_queue_that_is_added(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    query = to_parquet(stream(spark, cluster, topic), tmp_path).start(str(tmp_path / "table"))
    try:
        wait_until(lambda: ends(query) == {"0": 0})  # it begins at the latest offset, with an empty batch
        cluster.send_numbers(topic, range(10))
        wait_until(lambda: ends(query) == {"0": 10})
        cluster.add_queues(topic, 3)
        cluster.send_numbers(topic, range(10, 40))
        wait_until(lambda: sum(ends(query).values()) == 40)
        assert sorted(ends(query)) == ["0", "1", "2"]
        assert query.lastProgress is not None
        assert query.lastProgress.sources[0].latestOffset == query.lastProgress.sources[0].endOffset
        batches = query.lastProgress.batchId
        query.processAllAvailable()
        assert query.lastProgress.batchId == batches, "an idle stream runs no empty batches"
    finally:
        query.stop()
    assert written(spark, tmp_path) == list(range(40))


def test_a_stream_from_the_latest_offset_that_fails_in_its_first_batches_loses_nothing(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    cluster.send_numbers(topic, range(100))
    taken: list[int] = []

    def start(fails: bool) -> StreamingQuery:
        def take(batch: DataFrame, number: int) -> None:
            if fails:
                raise RuntimeError(f"batch {number} fails")
            taken.extend(int(row.body) for row in batch.collect())

        frame = stream(spark, cluster, topic)
        return frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(StreamingQueryException, match="batch 0 fails"):
        start(fails=True).awaitTermination(DONE_S)
    cluster.send_numbers(topic, range(100, 120))
    query = start(fails=False)
    try:
        wait_until(lambda: len(taken) >= 20)
    finally:
        query.stop()
    assert sorted(taken) == list(range(100, 120)), "not those before it began, and all since"


def test_a_stream_adds_nothing_to_the_environment_that_it_shares_with_those_that_start_at_the_same_time(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    cluster.send_numbers(topic, range(5))
    register_source(spark)  # as in a new session
    environment = source_environment(spark)
    known = set(environment.keySet())
    run_to_end(stream(spark, cluster, topic, startingOffsets="earliest"), tmp_path)
    assert set(environment.keySet()) == known
    assert environment.get("SPARK_BUFFER_SIZE") != "", "it is this one that streams write to"


def test_the_progress_of_a_stream_is_committed_to_a_group_up_to_its_last_batch(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    cluster.send_numbers(topic, range(1_000))
    group = f"progress-of-{topic}"
    with committed_progress(spark, cluster.address, group) as progress:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "600"}
        batches = run_to_end(stream(spark, cluster, topic, **options), tmp_path)
        assert len(batches) == 2
        source = batches[-1].sources[0]
        assert skipped_rows(source.startOffset, source.endOffset, source.numInputRows) == 0
    assert progress.failures == {}
    assert sum(progress.committed.values()) == 1_000
    assert sum(cluster.committed(group).values()) == 1_000


def test_a_stream_goes_on_when_its_broker_is_killed_and_comes_back_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    with cluster_processes(tmp_path) as own:
        own.create_topic("t", 2)
        own.send_numbers("t", range(50))
        frame = stream(spark, own, "t", startingOffsets="earliest")
        query = to_parquet(frame, tmp_path).start(str(tmp_path / "table"))
        try:
            wait_until(lambda: sum(ends(query).values()) == 50)
            own.kill_broker()
            own.restart_broker()
            own.send_numbers("t", range(50, 80))
            wait_until(lambda: sum(ends(query).values()) == 80)
            assert query.isActive
        finally:
            query.stop()
        assert written(spark, tmp_path) == list(range(80))


def test_a_topic_that_was_recreated_ends_a_stream_unless_that_is_wanted(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    cluster.send_numbers(topic, range(10))
    strict = stream(spark, cluster, topic, startingOffsets="earliest")
    careless = stream(spark, cluster, topic, startingOffsets="earliest", failOnDataLoss="false")
    run_to_end(strict, tmp_path / "strict")
    run_to_end(careless, tmp_path / "careless")
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    cluster.send_numbers(topic, range(10, 13))
    with pytest.raises(
        StreamingQueryException, match=f"queue {topic}@broker-a:0 from offset 10 on are gone: its topic"
    ):
        run_to_end(stream(spark, cluster, topic, startingOffsets="earliest"), tmp_path / "strict")
    frame = stream(spark, cluster, topic, startingOffsets="earliest", failOnDataLoss="false")
    run_to_end(frame, tmp_path / "careless")
    assert written(spark, tmp_path / "careless") == list(range(13)), "what was made anew is read from its beginning"


def test_a_batch_goes_on_where_it_was_when_its_broker_is_killed_in_the_middle_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    halfway, go_on = tmp_path / "halfway", tmp_path / "go-on"

    def stops_halfway(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 5_000 in batch["offset"].to_pylist():
                halfway.touch()
                wait_until(go_on.exists)
            yield batch

    with cluster_processes(tmp_path) as own:
        own.create_topic("t", 1)
        own.send_bodies("t", [b"x" * 100] * 20_000)
        frame = stream(spark, own, "t", startingOffsets="earliest").select("offset")
        frame = frame.mapInArrow(stops_halfway, "offset bigint")
        query = to_parquet(frame, tmp_path).trigger(availableNow=True).start(str(tmp_path / "table"))
        wait_until(lambda: halfway.exists() or not query.isActive)
        own.kill_broker()
        own.restart_broker()
        go_on.touch()
        assert query.awaitTermination(DONE_S)
    assert [one.numInputRows for one in query.recentProgress] == [20_000], "one batch"
    assert sorted(row.offset for row in spark.read.parquet(str(tmp_path / "table")).collect()) == list(range(20_000))
