"""A set of replicas stands for one broker, and can be killed, stopped and started as one."""

from __future__ import annotations

import anyio

from model.replica_set import Elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.sets import SimulatedSet
from tests.simulation.conftest import Simulate


def test_the_process_of_a_set_is_that_of_its_master(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await anyio.sleep(1.0)
        found = cluster.brokers["broker-a"]
        assert isinstance(found, SimulatedSet)
        assert found.address == "broker-a-1:10911"
        assert found.serves
        await found.crash()
        assert not found.serves
        assert cluster.replicas["broker-a-1"].process is None
        assert cluster.replicas["broker-a-2"].process is not None
        row = await cluster.register.read("broker-a")
        assert row is not None
        assert row.master == 1  # a process that is killed hands over to nobody
        await found.start()
        await anyio.sleep(1.0)
        assert found.serves
        await found.stop()
        assert all(replica.process is None for replica in found.replicas)

    simulate(scenario, brokers=1, copies=2, set_options={"elect": Elect.OPERATOR})
