"""What of the benchmark of streams needs no Spark; tests/spark/test_bench_spark.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.bench import spark_streams
from testbed.bench.spark_streams import connector_jars


def test_kafka_takes_part_if_its_broker_and_the_connector_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, connector = tmp_path / "kafka", tmp_path / "spark-kafka"
    monkeypatch.setattr(spark_streams, "JARS", broker)
    monkeypatch.setattr(spark_streams, "CONNECTOR", connector)
    assert connector_jars() == []
    connector.mkdir()
    jars = [connector / name for name in ("clients.jar", "connector.jar")]
    for jar in jars:
        jar.touch()
    assert connector_jars() == [], "without a broker the connector is of no use"
    broker.mkdir()
    (broker / "kafka.jar").touch()
    assert connector_jars() == jars
