"""`rlab swarm --master`: the members of a group live in tasks of Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio
import pytest
from pyspark.sql import SparkSession

from model.errors import ConfigError, ServiceNotAvailable
from testbed.swarm.observer import SwarmSummary
from testbed.swarm.run import SwarmRun
from testbed.swarm.spark import SparkParts
from tests.spark.spark_cluster import ClusterProcesses
from tests.tcp.rlab_process import wait_until
from tests.unit.testbed.swarm.small import small_swarm

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
    # The job has ended, so its slots are free again; Spark's list of jobs learns of it a little later.
    wait_until(lambda: spark.sparkContext.statusTracker().getActiveJobsIds() == [])


async def cut_short(spark: SparkSession, name_servers: str) -> None:
    """Run a swarm, and cancel its job as soon as it has begun to send."""
    options = replace(small_swarm(name_servers, 2, name="swarm-cut-short", consumers=4), duration_s=60)
    begun = anyio.Event()
    swarm_run = SwarmRun(options, elsewhere=SparkParts(spark).open, on_status=lambda _: begun.set())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(swarm_run.run)
            await begun.wait()
            spark.sparkContext.cancelAllJobs()


def test_a_swarm_whose_job_fails_ends_and_says_what_spark_says(spark: SparkSession, cluster: ClusterProcesses) -> None:
    """The lines of its parts were no longer read then, and it waited for their end for ever."""
    with pytest.RaisesGroup(pytest.RaisesExc(ServiceNotAvailable, match="ended by itself .*cancelled")):
        anyio.run(partial(cut_short, spark, cluster.address))


def test_a_local_master_with_fewer_slots_than_parts_is_refused(spark: SparkSession, cluster: ClusterProcesses) -> None:
    with pytest.raises(ConfigError, match=r"3 parts need 3 tasks at the same time, and local\[2\] runs 2"):
        anyio.run(partial(run, spark, cluster.address, 3))
