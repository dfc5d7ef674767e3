"""A broker of this commit opens what the broker of an earlier one left on its disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from client import Admin, ConsumeFrom, MessageExt, PopConsumer, PushConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.compat.scenario import NAME_SERVERS, until
from tests.compat.stored import BROKER, LATER_S, unpack

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

STOPPED_S = 40.0
"""When that broker had stopped, by the clock of the simulation, and none of its delayed messages was due."""
BODIES = {b"m%d" % n for n in range(12)} | {b"bad"}


class Today:
    """Clients of this commit."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def options(self, name: str) -> dict[str, Any]:
        return {"clock_ms": self._simulation.clock_ms, "rng": Random(name), "trace": False, "instance_name": name}

    async def bodies(self, group: str, n: int) -> list[bytes]:
        """The next n messages of a group, pushed."""
        got: list[bytes] = []

        async def listener(messages: Sequence[MessageExt]) -> None:
            got.extend(message.body for message in messages)

        first = ConsumeFrom.FIRST_OFFSET
        async with PushConsumer(NAME_SERVERS, group, consume_from=first, **self.options(group)) as consumer:
            await consumer.subscribe("orders", listener)
            await until(lambda: len(got) >= n)
            await anyio.sleep(1)
        return got

    async def popped(self, n: int) -> set[bytes]:
        """The next n messages of `poppers`."""
        got: set[bytes] = set()
        async with PopConsumer(NAME_SERVERS, "poppers", **self.options("poppers")) as popper:
            await popper.subscribe("orders")
            with anyio.fail_after(60):
                while len(got) < n:
                    messages = await popper.receive(16, invisible_s=60, wait_s=5)
                    got |= {message.body for message in messages}
                    await popper.ack(messages)
        return got


def test_a_broker_opens_the_data_directory_of_the_release_before(tmp_path: Path) -> None:
    acknowledged = unpack(tmp_path / BROKER)

    async def main(simulation: Simulation) -> None:
        today = Today(simulation)
        async with SimulatedCluster(simulation, tmp_path, brokers=0) as cluster:
            await anyio.sleep(STOPPED_S)
            await cluster.add_broker(BROKER)
            with simulation.on_host("today"):
                async with Admin(NAME_SERVERS) as admin:
                    assert "orders" in await admin.topics()
                    billing = [each for each in (await admin.group("billing")).queues if each.queue.topic == "orders"]
                    assert len(billing) == 2
                    assert sum(each.committed or 0 for each in billing) == 8
                    found = await admin.query_message("orders", "k3")
                    assert [each.message.body for each in found.messages] == [b"m3"]
                    letters = admin.dead_letters("failing").letters()
                    assert [letter.message.body async for letter in letters] == [b"bad"]
                assert set(await today.bodies("billing", 5)) == {b"m8", b"m9", b"m10", b"m11", b"bad"}
                assert sorted(await today.bodies("newcomers", 13)) == sorted(BODIES)
                assert simulation.loop.time() < STOPPED_S + LATER_S
                assert await today.bodies("billing", 1) == [b"later"]
                assert await today.popped(13) == {*BODIES, b"later"} - {acknowledged}

    run_simulation(main, seed=1)
