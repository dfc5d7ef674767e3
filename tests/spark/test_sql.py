"""Topics as tables in SQL: real brokers, a real session, Spark's own catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

MakeTopic = Callable[[int], str]


@pytest.fixture
def tables(spark: SparkSession, cluster: ClusterProcesses, make_topic: MakeTopic) -> Iterator[str]:
    """`both`, which can be read and written, and `out`, which can only be written; both of the topic that this is."""
    topic = make_topic(1)
    server = f"nameServer '{cluster.address}'"
    spark.sql(f"CREATE TABLE both USING rlab OPTIONS ({server}, subscribe '{topic}', topic '{topic}')")
    spark.sql(f"CREATE TABLE out USING rlab OPTIONS ({server}, topic '{topic}')")
    yield topic
    spark.sql("DROP TABLE both")
    spark.sql("DROP TABLE out")


@pytest.mark.usefixtures("tables")
def test_a_table_is_read_and_written_in_sql_and_by_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("INSERT INTO out (body, key) VALUES ('text', 'k')")
    spark.sql("INSERT INTO out (body) VALUES (x'ff00')")
    spark.createDataFrame([("more",)], "body string").writeTo("out").append()
    spark.sql("INSERT INTO both (key, body) SELECT key, body FROM both")
    found = spark.sql("SELECT key, body FROM both ORDER BY offset").collect()
    assert [(row.key, bytes(row.body)) for row in found] == [("k", b"text"), (None, b"\xff\x00"), (None, b"more")] * 2
    stream = spark.readStream.option("startingOffsets", "earliest").table("both").select("offset").writeStream
    stream = stream.format("memory").queryName("streamed").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert spark.table("streamed").count() == 6


def test_what_spark_reports_a_source_too_little_for_is_an_error_that_says_what_to_write(
    spark: SparkSession, tables: str, cluster: ClusterProcesses
) -> None:
    spark.sql("INSERT INTO out (body) VALUES ('x')")
    with pytest.raises(
        PySparkException, match="column broker has a value in a row, but only brokers set it: name the col"
    ):
        spark.sql("INSERT INTO both SELECT * FROM both")
    spark.sql(f"CREATE TABLE narrow (body binary) USING rlab OPTIONS (nameServer '{cluster.address}')")
    try:
        with pytest.raises(AnalysisException, match="FROM t WITH"):
            spark.table("narrow").collect()
        options = f"nameServer = '{cluster.address}', subscribe = '{tables}'"
        assert spark.sql(f"SELECT string(body) AS text FROM narrow WITH ({options})").collect() == [("x",)]
    finally:
        spark.sql("DROP TABLE narrow")
