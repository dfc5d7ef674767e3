from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client import MessageQueue
from remoting.client import RemotingClient
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Window
from testbed.bench.throughput.filtered import ALL, ONE_IN_A_HUNDRED, examining, fill_priced
from testbed.bench.throughput.pull import FILL_BATCH, QUEUES
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded


@pytest.mark.parametrize(("sql", "window_s"), [(ALL, 0.1), (ONE_IN_A_HUNDRED, 0.01)])  # one pull examines 32 or 3,200
def test_each_message_that_is_examined_counts_and_reading_begins_again_at_the_end(
    tmp_path: Path, sql: str, window_s: float
) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster, RemotingClient({}) as remoting:
            await fill_priced(cluster.name_server, FILL_BATCH)
            queues = [MessageQueue(TOPIC, "broker-a", queue_id) for queue_id in range(QUEUES)]
            work = examining(await remoting.connect(cluster.broker), queues, sql, FILL_BATCH)
            window = Window()
            simulation.loop.call_later(window_s, window.close)
            async with anyio.create_task_group() as tasks:
                for _ in queues:
                    tasks.start_soon(work, window)
            assert window.done > 2 * QUEUES * FILL_BATCH

    run_simulation(main)
