from __future__ import annotations

from pathlib import Path

from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Sizes
from testbed.bench.rebalance.join import measure_joins
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded


def test_each_join_ends_with_every_table_on_target_and_is_undone_before_the_next(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        said: list[str] = []
        sizes = Sizes(joins=3, members=4, queues=10)
        async with embedded(simulation, tmp_path, TOPIC, sizes.queues) as cluster:
            times_ms = await measure_joins(cluster.name_server, sizes, said.append)
        assert len(times_ms) == 3
        assert all(time_ms > 0 for time_ms in times_ms)
        assert said == ["starting 4 consumers", "join 1 of 3", "join 2 of 3", "join 3 of 3"]

    run_simulation(main)
