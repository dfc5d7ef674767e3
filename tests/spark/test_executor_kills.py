"""What kill -9 does to the executors of a stream, two of them with a JVM each: every message is there exactly once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.copy_job import TABLE, TOPIC, CopyJob
from tests.spark.running_job import BODY, assert_each_once, copies_of, in_turn, table_of
from tests.spark.spark_cluster import ClusterProcesses

pytestmark = [pytest.mark.spark, pytest.mark.process]

ROWS = 16_000


def test_killed_executors_are_replaced_and_nothing_is_missing_or_there_twice(
    spark: SparkSession, cluster: ClusterProcesses, make_topic: Callable[[int], str], tmp_path: Path
) -> None:
    job = CopyJob(
        master="local-cluster[2,1,1024]",
        name_server=cluster.address,
        source=make_topic(4),
        target=make_topic(3),
        folder=str(tmp_path),
        rows_per_batch=2_000,
    )
    cluster.send_bodies(job.source, [BODY] * ROWS)
    rng = random.Random(6)
    with in_turn([job], tmp_path) as processes:
        process = next(processes)
        for query in (TABLE, TOPIC):
            process.wait_begun_anew(query)
            process.kill_executor(rng)
        process.wait_done()
    assert_each_once(table_of(spark, job), ROWS)
    assert_each_once(copies_of(spark, job), ROWS)
