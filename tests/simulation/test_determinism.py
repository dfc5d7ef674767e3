"""One seed, one history: every event of every node, byte for byte, in any process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from model.event_log import encode_events
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).resolve().parents[2]


async def eventful_minutes(cluster: SimulatedCluster) -> None:
    """Members that come and go, faults, and messages: whatever could happen in another order."""
    chance = cluster.simulation.random
    await cluster.create_topic("t", queues=5)
    producer = await cluster.start_producer()
    for _ in range(12):
        await cluster.start_consumer("g", "t")
    await producer.send_many("t", 200)
    await cluster.consumers[3].stop()
    await cluster.consumers[5].crash()
    cluster.consumers[7].hang()
    await anyio.sleep(chance.random() * 20)
    await cluster.brokers["broker-b"].crash()
    await anyio.sleep(chance.random() * 5)
    await cluster.brokers["broker-b"].start()
    await cluster.create_topic("t", queues=7)
    cluster.simulation.network.cut("broker-a")
    await anyio.sleep(40)
    await producer.send_many("t", 200, first=200)
    await cluster.name_servers["namesrv-1"].crash()
    await anyio.sleep(chance.random() * 100)


def history(seed: int, data_dir: Path) -> bytes:
    """Every event of the eventful minutes, and what the network did."""

    async def main(simulation: Simulation) -> bytes:
        async with SimulatedCluster(simulation, data_dir, name_servers=2) as cluster:
            await eventful_minutes(cluster)
        return encode_events(cluster.events) + repr(simulation.network.statistics()).encode()

    return run_simulation(main, seed=seed, jitter_s=0.003)


def test_one_seed_gives_one_history_and_another_seed_another(tmp_path: Path) -> None:
    first, again, other = (history(seed, tmp_path / name) for seed, name in ((7, "a"), (7, "b"), (8, "c")))
    assert first.count(b"\n") > 500
    assert first == again
    assert first != other


@pytest.mark.process
def test_processes_that_hash_strings_differently_have_the_same_history() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, __file__],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == 64


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        sys.stdout.write(hashlib.sha256(history(7, Path(directory))).hexdigest())
