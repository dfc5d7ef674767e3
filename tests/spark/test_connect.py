"""Spark Connect: the same source and sink, used through a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from model.errors import ConfigError
from pipeline.source.options import SELECTIONS
from pipeline.source.progress import committed_progress
from tests.spark.refusals import refusal
from tests.spark.spark_cluster import ClusterProcesses
from tests.spark.wrong_options import OPTIONS, WRONG_READS, WRONG_WRITES

pytestmark = [pytest.mark.spark, pytest.mark.process]

MakeTopic = Callable[[int], str]
EVERY = "RLAB_EVERY_OPTION" in os.environ
"""Whether each wrong option is given in each of the four ways; some of them are, in one way each, by default."""
ALL_WRITES = [(number, way) for number in range(len(WRONG_WRITES)) for way in range(4)]


def test_a_topic_is_read_and_written_and_the_progress_of_a_stream_is_committed(
    remote: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, copy = make_topic(2), make_topic(1)
    cluster.send_numbers(topic, range(100))
    where = {"nameServer": cluster.address, "subscribe": topic, "startingOffsets": "earliest"}
    rows = remote.read.format("rlab").options(**where).load().selectExpr("string(body) as body", "key")
    rows.write.format("rlab").option("nameServer", cluster.address).option("topic", copy).mode("append").save()
    where["subscribe"] = copy
    assert sorted(int(row.body) for row in remote.read.format("rlab").options(**where).load().collect()) == [
        *range(100)
    ]
    group = f"remote-{topic}"
    with committed_progress(remote, cluster.address, group) as progress:
        stream = remote.readStream.format("rlab").options(**where).option("maxOffsetsPerTrigger", "60").load()
        writer = stream.select("body").writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        query.awaitTermination()
    assert (sum(progress.committed.values()), sum(cluster.committed(group).values())) == (100, 100)


def test_a_wrong_option_is_named_in_the_last_line_with_connect_and_without(
    remote: SparkSession, spark: SparkSession
) -> None:
    # By default every fourth, in one way each: `tests/unit/pipeline/test_data_source.py` asks what refuses them all, in
    # every way.
    ways: list[tuple[str, Callable[[], DataFrameReader | DataStreamReader]]] = [
        ("batch", lambda: spark.read),
        ("stream of Connect", lambda: remote.readStream),
        ("stream", lambda: spark.readStream),
        ("batch of Connect", lambda: remote.read),
    ]
    wrong = list(WRONG_READS.items())
    cases = [(one, way) for one in wrong for way in ways] if EVERY else list(zip(wrong[::4], cycle(ways), strict=False))
    for (name, value), (way, make) in cases:
        given = {**(OPTIONS if name not in SELECTIONS else {"nameServer": "names:1"}), name: value}
        reader = make().format("rlab").options(**given)
        line = refusal(lambda reader=reader: reader.load().schema)  # type: ignore[misc]  # Connect asks the server now
        assert line.startswith(f"{ConfigError.__module__}.ConfigError: option {name}"), way


@pytest.mark.parametrize(("number", "way"), ALL_WRITES if EVERY else [(number, number) for number in range(4)])
def test_a_wrong_option_of_a_write_is_named_in_the_last_line_with_connect_and_without(
    remote: SparkSession, spark: SparkSession, tmp_path: Path, number: int, way: int
) -> None:
    name, value = list(WRONG_WRITES.items())[number]
    given = {"nameServer": "names:1", "topic": "t", name: value}
    session = (spark, remote)[way % 2]

    def stream() -> None:
        frame = session.readStream.format("rate").load().selectExpr("string(value) as body")
        writer = frame.writeStream.format("rlab").options(**given).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    def batch() -> None:
        session.range(1).selectExpr("string(id) as body").write.format("rlab").options(**given).mode("append").save()

    line = refusal(batch if way // 2 else stream)
    assert line.startswith(f"{ConfigError.__module__}.ConfigError: option {name}")


def test_an_option_of_the_other_kind_of_read_is_refused_by_the_query_of_connect(
    remote: SparkSession, tmp_path: Path
) -> None:
    stream = remote.readStream.format("rlab").options(**OPTIONS, endingOffsets="latest").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    assert refusal(query.awaitTermination).endswith("endingOffsets is for a batch read: leave it out here")
