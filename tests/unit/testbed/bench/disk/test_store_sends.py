from __future__ import annotations

from pathlib import Path

import anyio

from broker.store.disk.files import Files
from client import Producer
from client.admin.admin import Admin
from testbed.bench.disk.store_sends import sending_each, syncing
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Sizes
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet


def test_each_producer_sends_and_every_send_that_counts_is_stored(tmp_path: Path) -> None:
    sizes = Sizes(seconds=0.5)

    async def main(simulation: Simulation) -> None:
        async with (
            embedded(simulation, tmp_path, TOPIC, 2) as cluster,
            Producer(cluster.name_server) as one,
            Producer(cluster.name_server) as other,
            Admin(cluster.name_server) as admin,
        ):
            rates = []
            for producers in ((one,), (one, other)):
                rates.append(await sending_each(producers, sizes, quiet, "")())
            info = (await admin.broker_info("broker-a")).topic(TOPIC)
        assert info is not None
        assert sum(queue.max_offset for queue in info.ranges) > 100
        assert min(rates) > 0

    run_simulation(main)


def test_the_bare_loop_appends_records_of_a_send(tmp_path: Path) -> None:
    class Counted(Files):
        synced = 0

        def sync(self, fd: int) -> None:
            self.synced += 1

    files = Counted()

    async def main() -> None:
        assert await syncing(tmp_path / "bare", files, Sizes(seconds=0.01), quiet)() > 0

    anyio.run(main)
    size = (tmp_path / "bare").stat().st_size
    assert files.synced > 0
    assert size % files.synced == 0
    assert size // files.synced > 256
