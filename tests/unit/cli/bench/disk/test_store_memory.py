from __future__ import annotations

from pathlib import Path

from broker.store.disk.options import StoreOptions
from cli.bench.disk.store_memory import BODY, budget_bytes, read_all
from cli.bench.kit.echo import TOPIC
from cli.bench.kit.filling import fill_topic
from client.admin.admin import Admin
from simulation.kernel.run import Simulation, run_simulation
from tests.unit.cli.bench.embedded import embedded, quiet


def test_everything_is_read_back_from_the_first_message(tmp_path: Path) -> None:
    said: list[str] = []

    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 4) as cluster, Admin(cluster.name_server) as admin:
            await fill_topic(cluster.name_server, BODY, 1_000, quiet)
            await read_all(cluster.name_server, 1_000, said.append)
            group = await admin.group("bench")
        assert sum(each.committed or 0 for each in group.queues if each.queue.topic == TOPIC) == 1_000

    run_simulation(main)
    assert said == []  # told every ten thousand


def test_the_budget_is_the_sum_that_the_documentation_names() -> None:
    options = StoreOptions(tail_bytes=1_000, index_cache_bytes=200, segment_records=3)
    assert budget_bytes(options) == 1_000 + 200 + 3 * 20
