"""Servers are made with the options of their cluster, each on a host and with a directory of its own."""

from __future__ import annotations

from pathlib import Path

from model.replica_set import Acks
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def test_brokers_and_replicas_have_directories_named_after_their_hosts(simulate: Simulate, tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        hosts = [*cluster.replicas] or [*cluster.brokers]
        assert sorted(path.name for path in cluster.data_dir.iterdir()) == hosts

    simulate(scenario, brokers=2)
    simulate(scenario, brokers=1, copies=3)


def test_the_options_of_a_set_reach_the_register(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        row = await cluster.register.read("broker-a")
        assert row is not None
        assert (row.copies, row.acks) == (2, Acks.MASTER)

    simulate(scenario, brokers=1, copies=2, set_options={"acks": Acks.MASTER})
