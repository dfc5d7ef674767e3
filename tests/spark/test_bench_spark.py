"""`rlab bench spark` with little to measure: its figures come from jobs that run to their end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from pyspark.sql import SparkSession

from testbed.bench import spark_streams
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.report import GOALS
from testbed.bench.kit.rounds import Sizes
from testbed.bench.spark import QUEUES, SPARK_BODY, measure_session
from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

ROWS = 2_048


def test_every_figure_of_one_session_is_measured(
    spark: SparkSession, cluster: ClusterProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_streams, "MICRO_QUEUES", (2,))
    monkeypatch.setattr(spark_streams, "MICRO_ROWS", (600,))
    cluster.create_topic(TOPIC, QUEUES)
    cluster.send_bodies(TOPIC, [SPARK_BODY] * ROWS)
    sizes = Sizes(spark_rows=ROWS, trickle=2, passes=1)
    results = anyio.run(partial(measure_session, spark, cluster.address, tmp_path, sizes, lambda what: None))
    copied = {
        name: spark.read.format("rlab").option("nameServer", cluster.address).option("subscribe", name).load().count()
        for name in ("spark-write-1", "spark-write-once-1")
    }
    assert all(result.value > 0 for result in results)
    of_one_session = {name for name in GOALS if "spark" in name and "kafka" not in name} - {"spark-executors"}
    assert {result.name for result in results} >= {*of_one_session, "spark-micro-2-600"}
    assert copied == {"spark-write-1": ROWS // 2, "spark-write-once-1": ROWS // 2}
