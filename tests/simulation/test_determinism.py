"""One seed, one history: every event of every node, byte for byte, in any process."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from model.event_log import encode_events
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine import run
from testbed.simulation.engine.programme import ClusterPart, LoadPart, Programme, Step
from testbed.simulation.engine.run import run_programme
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


def test_a_programme_with_power_cuts_has_one_history_whatever_the_process_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # A power cut draws by the lengths of writes what is left of a file, and a broker writes its process id.
    caplog.set_level(logging.CRITICAL + 1)  # clients report that the broker is down
    cuts = tuple(Step(at_s=at_s, do="power_cut", who="broker-a", for_s=0.1) for at_s in (0.3, 0.9, 1.5))
    programme = Programme(
        seed=1,  # which loses the writes to the lock file, and draws another number for another length
        cluster=ClusterPart(brokers=1, flush="sync"),
        load=LoadPart(messages=20, pause_s=0.1),
        step=cuts,
    )
    outcomes = []
    for process_id, folder in ((7, "a"), (12_345, "folder")):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(os, "getpid", lambda process_id=process_id: process_id)
        monkeypatch.setattr(run, "MEMORY", tmp_path / "none")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
        outcomes.append(run_programme(programme))
    assert outcomes[0].acts == {"power_cut": 3}
    assert outcomes[0] == outcomes[1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        sys.stdout.write(hashlib.sha256(history(7, Path(directory))).hexdigest())
