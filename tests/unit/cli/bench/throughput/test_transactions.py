from __future__ import annotations

from pathlib import Path

from cli.bench.kit.echo import TOPIC
from cli.bench.kit.rounds import Window
from cli.bench.throughput.transactions import leave_open, rolled_back, transacting
from client import TransactionProducer
from client.admin.admin import Admin
from simulation.kernel.run import Simulation, run_simulation
from tests.unit.cli.bench.embedded import embedded


def test_every_transaction_that_counts_is_published(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            embedded(simulation, tmp_path, TOPIC, 2) as cluster,
            TransactionProducer(cluster.name_server, "bench", check=rolled_back) as producer,
        ):
            window = Window()
            simulation.loop.call_later(0.5, window.close)
            await transacting(producer)(window)
            async with Admin(cluster.name_server) as admin:
                (broker,) = await admin.brokers()
                info = (await admin.broker_info(broker.broker_name)).topic(TOPIC)
            assert info is not None
            assert window.done > 50
            assert sum(queue.max_offset - queue.min_offset for queue in info.ranges) == window.done

    run_simulation(main)


def test_as_many_transactions_are_left_open_as_were_asked_for(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 2) as cluster:
            await leave_open(cluster.name_server, 128)
            async with Admin(cluster.name_server) as admin:
                (group,) = await admin.producer_groups()
            assert (group.group, group.open) == ("bench", 128)

    run_simulation(main)
