"""A whole cluster in virtual time, one call away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

T = TypeVar("T")


class Simulate(Protocol):
    """What the fixture gives: runs a scenario in a cluster of its own, and returns what it returns."""

    def __call__(self, scenario: Callable[[SimulatedCluster], Awaitable[T]], *, seed: int = 0, **options: Any) -> T: ...


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """Runs `scenario(cluster)`; options are those of `SimulatedCluster`."""
    runs = 0

    def run(scenario: Callable[[SimulatedCluster], Awaitable[T]], *, seed: int = 0, **options: Any) -> T:
        nonlocal runs
        runs += 1
        data_dir = tmp_path / str(runs)

        async def main(simulation: Simulation) -> T:
            async with SimulatedCluster(simulation, data_dir, **options) as cluster:
                return await scenario(cluster)

        main.__qualname__ = scenario.__qualname__  # the note on a failure names it
        return run_simulation(main, seed=seed)

    return run
