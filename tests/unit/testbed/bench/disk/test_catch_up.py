from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from client.admin.admin import Admin
from testbed.bench.disk.catch_up import Pass, consuming_all, drop_page_cache, pulling_all
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.bench.throughput.pull import QUEUES
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet

COUNT = 3_000


@pytest.mark.parametrize(
    "make", [lambda: consuming_all(COUNT, 256, 256), lambda: consuming_all(COUNT, 32, 1), lambda: pulling_all(32)]
)
def test_a_pass_reads_every_message_in_a_finite_time(tmp_path: Path, make: Callable[[], Pass]) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster:
            await fill_topic(cluster.name_server, BODY, COUNT, quiet)
            assert await make()(cluster.name_server, "late") > 0

    run_simulation(main)


def test_a_pass_of_a_consumer_ends_with_everything_committed(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster, Admin(cluster.name_server) as admin:
            await fill_topic(cluster.name_server, BODY, COUNT, quiet)
            await consuming_all(COUNT, 256, 256)(cluster.name_server, "late")
            group = await admin.group("late")
        assert sum(each.committed or 0 for each in group.queues if each.queue.topic == TOPIC) == COUNT

    run_simulation(main)


def test_pages_are_forgotten_and_not_the_content(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(BODY * 100)
    assert drop_page_cache(tmp_path) is hasattr(os, "posix_fadvise")
    assert (tmp_path / "00000000000000000000.log").read_bytes() == BODY * 100
