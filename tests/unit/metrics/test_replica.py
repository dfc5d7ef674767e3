"""The metrics of a set, in each role."""

from __future__ import annotations

import anyio
from prometheus_client import CollectorRegistry, generate_latest

from metrics.event_counts import EventCounts
from metrics.replica import add_replica, replica_readiness_problem
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def test_both_roles_show_the_set_and_the_master_how_far_the_others_are(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await anyio.sleep(1.0)
        shown = []
        for number in (1, 2):
            registry = CollectorRegistry()
            replica = cluster.replicas[f"broker-a-{number}"].running
            add_replica(registry, replica, EventCounts(None), "1")
            shown.append(generate_latest(registry).decode())
        for text, role in zip(shown, ("master", "following"), strict=True):
            assert f'rlab_replica_role{{role="{role}"}} 1.0' in text
            assert "rlab_replicas_wanted 2.0" in text
            assert "rlab_replica_register_answers 1.0" in text
        assert 'rlab_replica_lag_bytes{replica="2"} 0.0' in shown[0]
        assert "rlab_replica_lag_bytes{" not in shown[1]
        assert "rlab_store_written_bytes_total" in shown[0]
        assert "rlab_replica_lease_seconds 2.0" in shown[1]
        assert "rlab_replica_lease_lapses_total 0.0" in shown[0]
        [margin] = [line.split()[1] for line in shown[0].splitlines() if line.startswith("rlab_replica_lease_margin_")]
        assert 1.5 < float(margin) < 2.0
        assert "rlab_replica_lease_margin_seconds " not in shown[1]
        assert replica_readiness_problem(cluster.replicas["broker-a-2"].running) == ""

    simulate(scenario, brokers=1, copies=2)
