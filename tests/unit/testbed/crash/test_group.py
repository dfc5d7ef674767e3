from __future__ import annotations

from pathlib import Path

from client import MessageQueue
from client.admin.records import QueueProgress
from testbed.crash.group import committed_offsets, drain, progress_of_group
from testbed.crash.ledger import Ledger
from testbed.crash.load import TOPIC, LoadSize, run_load
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded


def test_a_group_that_is_drained_has_committed_what_it_consumed(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> tuple[QueueProgress, ...]:
        ledger = Ledger(float)
        async with embedded(simulation, tmp_path, TOPIC, 4) as cluster:
            assert await progress_of_group(cluster.name_server) == ()
            async with run_load(cluster.name_server, ledger, LoadSize(producers=1, consumers=2)) as load:
                await load.wait_flow("broker-a")
                await load.fall_quiet()
                await drain(cluster.name_server, ledger)
                assert ledger.messages.lost == 0
            return await progress_of_group(cluster.name_server)

    queues = run_simulation(main, seed=3)
    committed = committed_offsets(queues)
    assert sum(committed.values()) > 0
    assert all(committed.get(each.queue, 0) == each.max_offset for each in queues)
    assert MessageQueue(TOPIC, "broker-a", 0) in {each.queue for each in queues}
