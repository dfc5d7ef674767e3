"""The faults: what they break they can make whole, and a host has one consumer at a time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import pytest

from simulation.cluster.clients import SimulatedConsumer
from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation
SLOTS = ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("seed", range(3))
def test_after_any_chaos_everything_is_made_whole_again(tmp_path: Path, seed: int) -> None:
    async def main(simulation: Simulation) -> Counter[str]:
        disks = FillingDisks(tmp_path)
        async with SimulatedCluster(simulation, tmp_path, name_servers=2, files=disks) as cluster:
            await cluster.create_topic("t", queues=2)

            async def start(slot: str) -> SimulatedConsumer:
                assert slot not in [consumer.host for consumer in cluster.consumers]
                return await cluster.start_consumer("g", "t", host=slot, shutdown_grace_s=1.0)

            faults = Faults(cluster, disks, start)
            for slot in SLOTS:
                await faults.fill(slot)
            await faults.chaos(60.0)
            await faults.make_whole()
            assert sorted(consumer.host for consumer in cluster.consumers) == SLOTS
            assert all(consumer.live for consumer in cluster.consumers)
            assert all(broker.process for broker in cluster.brokers.values())
            assert all(name_server.process for name_server in cluster.name_servers.values())
            assert not disks.full
            await cluster.wait_converged(120.0)
            await anyio.sleep(1)
            return faults.done

    done = run_simulation(main, seed=seed)
    assert done["crash"] + done["crash_server"] > 0
