from __future__ import annotations

from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Sizes
from testbed.bench.rebalance.sticky import bench_sticky
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_the_first_sharing_and_that_after_a_change_are_measured_against_the_same_peer() -> None:
    async def main(simulation: Simulation) -> list[Result]:
        return await bench_sticky(Sizes(repeat=2), lambda what: None)

    first, change = run_simulation(main)
    assert (first.name, change.name) == ("sticky-first", "sticky-change")
    assert first.value > 0
    assert change.value > 0
    assert first.baseline_value == change.baseline_value
