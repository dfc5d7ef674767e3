"""A simulated cluster with an `Admin` on a host of its own, for the tests of administration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from client.admin.admin import Admin
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

T = TypeVar("T")

Scenario = Callable[[SimulatedCluster, Admin], Awaitable[T]]


def administer(scenario: Scenario[T], data_dir: Path, **options: Any) -> T:
    """Run `scenario(cluster, admin)` in a cluster whose brokers have registered."""

    async def main(simulation: Simulation) -> T:
        async with SimulatedCluster(simulation, data_dir, **options) as cluster:
            await cluster.create_topic("warm-up", queues=1)
            with simulation.on_host("operator"):
                async with Admin(cluster.addresses, rng=Random(1)) as admin:
                    return await scenario(cluster, admin)

    main.__qualname__ = scenario.__qualname__
    return run_simulation(main)
