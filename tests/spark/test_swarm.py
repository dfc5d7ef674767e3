"""`rlab swarm --master`: the members of a group live in tasks of Spark."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from pyspark.sql import SparkSession

from cli.swarm.run import SwarmRun
from cli.swarm.spark import SparkParts
from model.errors import ConfigError
from simulation.swarm.observer import SwarmSummary
from tests.spark.spark_cluster import ClusterProcesses
from tests.unit.cli.swarm.small import small_swarm

pytestmark = [pytest.mark.spark, pytest.mark.process]


async def run(spark: SparkSession, name_servers: str, processes: int) -> SwarmSummary | None:
    options = small_swarm(name_servers, processes, name="swarm-of-spark", consumers=4)
    swarm_run = SwarmRun(options, elsewhere=SparkParts(spark).open)
    with anyio.fail_after(120):
        await swarm_run.run()
    return swarm_run.summary


def test_the_members_of_a_swarm_run_in_tasks_of_spark_and_are_reported_together(
    spark: SparkSession, cluster: ClusterProcesses
) -> None:
    summary = anyio.run(partial(run, spark, cluster.address, 2))
    assert summary is not None
    assert summary.ok
    assert summary.sent == summary.received_unique > 100
    assert (summary.queues, summary.double_owner_ms) == (6, 0)
    # The job has ended, so its slots are free again.
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_local_master_with_fewer_slots_than_parts_is_refused(spark: SparkSession, cluster: ClusterProcesses) -> None:
    with pytest.raises(ConfigError, match=r"3 parts need 3 tasks at the same time, and local\[2\] runs 2"):
        anyio.run(partial(run, spark, cluster.address, 3))
