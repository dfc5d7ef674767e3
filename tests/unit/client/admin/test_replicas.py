"""The replicas of a broker as an operator sees them; with a whole set: tests/simulation/test_replicas.py."""

from __future__ import annotations

import anyio
import pytest

from client.admin.admin import Admin
from model.errors import InvalidParameter, NetworkError
from model.replica_set import Elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def test_a_broker_without_copies_and_one_that_is_not_there_are_named(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                with pytest.raises(InvalidParameter, match="no replicas that answer"):
                    await admin.replicas("broker-a")
                with pytest.raises(InvalidParameter, match="'broker-z' is not registered"):
                    await admin.replicas("broker-z")
                with pytest.raises(InvalidParameter, match="replica id"):
                    await admin.hand_over("broker-a", -1)

    simulate(scenario, brokers=1)


def test_a_set_without_a_master_cannot_hand_over(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await anyio.sleep(1.0)
        await cluster.replicas["broker-a-1"].crash()
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                found = await admin.replicas("broker-a")
                assert [(each.role, bool(each.failure)) for each in found.replicas] == [
                    ("", True),
                    ("following", False),
                ]
                assert found.replicas[1].lag_bytes == -1
                with pytest.raises(NetworkError):
                    await admin.hand_over("broker-a", 2)

    simulate(scenario, brokers=1, copies=2, set_options={"elect": Elect.OPERATOR})
