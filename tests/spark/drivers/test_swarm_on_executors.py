"""`rlab swarm --master` on a master whose executors are processes of their own."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.spark.quick_start import QUICK_START
from tests.spark.spark_cluster import ClusterProcesses
from tests.tcp.rlab_process import command, environment

pytestmark = [pytest.mark.spark, pytest.mark.process]


def test_members_in_two_executors_are_one_group_and_one_report(cluster: ClusterProcesses) -> None:
    swarm = ["swarm", "--namesrv", cluster.address, "--consumers", "4", "--queues", "6", "--rate", "200"]
    spark = ["--duration", "2", "--churn", "0.4", "--processes", "2", "--master", "local-cluster[2,1,1024]"]
    done = subprocess.run(
        command([*swarm, *spark, "--json"]),
        check=False,
        capture_output=True,
        text=True,
        env=environment(**QUICK_START),
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert (verdict["lost"], verdict["duplicates"], verdict["queues"], verdict["double_owner_ms"]) == (0, 0, 6, 0)
    assert verdict["sent"] == verdict["received_unique"] > 100
