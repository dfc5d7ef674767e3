"""Broadcasting while brokers and members crash: nobody misses a message, and each keeps its place."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from model.errors import NetworkError
from model.heartbeat import MessageModel
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

MEMBERS = ("m1", "m2", "m3")


@pytest.mark.parametrize("order", ["none", "key"])
@pytest.mark.parametrize("seed", range(3))
def test_every_member_gets_every_message_anyone_who_crashes(
    simulate: Simulate, tmp_path: Path, seed: int, order: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        rng = Random(f"broadcast {seed}")
        await cluster.create_topic("t", queues=3)
        broker_runs: dict[str, list[SimulatedConsumer]] = {name: [] for name in MEMBERS}

        async def live(name: str) -> None:
            options: dict[str, Any] = {"model": MessageModel.BROADCASTING, "offsets_dir": tmp_path / "offsets"}
            broker_runs[name].append(
                await cluster.start_consumer("g", "t", host=name, instance_name=name, order=order, **options)
            )

        for name in MEMBERS:
            await live(name)
        producer = await cluster.start_producer()
        for number in range(240):
            while b"%d" % number not in producer.acknowledged:
                await anyio.sleep(rng.uniform(0, 0.4))
                with contextlib.suppress(NetworkError):  # the queue of the key is on the broker that is away
                    await producer.send("t", b"%d" % number, key=f"k{number % 7}")
            if number % 30 == 15:
                name = rng.choice(MEMBERS)
                await (broker_runs[name][-1].crash() if rng.random() < 0.6 else broker_runs[name][-1].stop())
                await anyio.sleep(rng.uniform(0, 5))
                await live(name)
            if number % 60 == 40:
                broker = cluster.brokers[rng.choice(sorted(cluster.brokers))]
                await (broker.crash() if rng.random() < 0.5 else broker.stop())
                await anyio.sleep(rng.uniform(0, 10))
                await broker.start()
        await anyio.sleep(60)
        for name in MEMBERS:
            got = {body for broker_run in broker_runs[name] for body in broker_run.bodies}
            assert producer.acknowledged.keys() <= got, f"{name} missed {producer.acknowledged.keys() - got}"
            for broker_run in broker_runs[name]:
                for key in range(7 if order == "key" else 0):
                    of_key = [int(body) for body in broker_run.bodies if int(body) % 7 == key]
                    assert of_key == sorted(of_key), f"{name} saw k{key} out of order"

    simulate(scenario, seed=seed)
