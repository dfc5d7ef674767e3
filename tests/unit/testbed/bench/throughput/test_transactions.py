from __future__ import annotations

from pathlib import Path

from client import TransactionProducer
from client.admin.admin import Admin
from testbed.bench.kit.echo import TOPIC
from testbed.bench.throughput.transactions import answer_rollback, leave_open, transacting
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import done_and_stored, embedded


def test_every_transaction_that_counts_is_published(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            embedded(simulation, tmp_path, TOPIC, 2) as cluster,
            TransactionProducer(cluster.name_server, "bench", check=answer_rollback) as producer,
        ):
            done, stored = await done_and_stored(simulation, cluster, TOPIC, transacting(producer))
            assert stored == done > 50

    run_simulation(main)


def test_as_many_transactions_are_left_open_as_were_asked_for(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 2) as cluster:
            await leave_open(cluster.name_server, 128)
            async with Admin(cluster.name_server) as admin:
                (group,) = await admin.producer_groups()
            assert (group.group, group.open) == ("bench", 128)

    run_simulation(main)
