from __future__ import annotations

from pathlib import Path

import pytest

from testbed.bench.peers.systems.ours import Ours
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded
from tests.unit.testbed.bench.peers.systems.systems_at_work import send_and_consume


@pytest.mark.parametrize("batch", [1, 32])
def test_what_is_sent_is_consumed_by_the_message_and_in_batches(tmp_path: Path, batch: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, "other", 1) as cluster:
            await send_and_consume(Ours(), cluster.name_server, batch)

    run_simulation(main)
