"""`rlab swarm --master` on a standalone master, whose executors are processes of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.spark.drivers.standalone import standalone_master
from tests.spark.quick_start import QUICK_START
from tests.spark.spark_cluster import ClusterProcesses
from tests.tcp.rlab_process import command, environment

pytestmark = [pytest.mark.spark, pytest.mark.process]


def test_members_in_two_executors_of_a_standalone_master_are_one_group_and_one_report(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    swarm = ["swarm", "--namesrv", cluster.address, "--consumers", "4", "--queues", "6", "--rate", "200"]
    with standalone_master(tmp_path, cores=2) as master:
        done = subprocess.run(
            command([*swarm, "--duration", "2", "--churn", "0.4", "--processes", "2", "--master", master, "--json"]),
            check=False,
            capture_output=True,
            text=True,
            # An executor on each core.
            env=environment(**QUICK_START, SPARK_SUBMIT_OPTS="-Dspark.executor.cores=1"),
            timeout=180,
        )
        executors = sorted(path.name for path in (tmp_path / "work").glob("app-*/*"))
    assert done.returncode == 0, done.stderr
    assert executors == ["0", "1"]
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert (verdict["lost"], verdict["duplicates"], verdict["queues"], verdict["double_owner_ms"]) == (0, 0, 6, 0)
    assert verdict["sent"] == verdict["received_unique"] > 100
