from __future__ import annotations

from pathlib import Path

from client.admin.admin import Admin
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded


def test_exactly_as_many_messages_are_stored_as_were_asked_for_and_it_says_how_far_it_is(tmp_path: Path) -> None:
    said: list[str] = []

    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 4) as cluster, Admin(cluster.name_server) as admin:
            await fill_topic(cluster.name_server, BODY, 2_500, said.append)
            info = (await admin.broker_info("broker-a")).topic(TOPIC)
        assert info is not None
        assert sum(queue.max_offset for queue in info.ranges) == 2_500
        assert min(queue.max_offset for queue in info.ranges) > 0

    run_simulation(main)
    assert said[-1] == "filling: 2,500 of 2,500 messages"
    assert 2 <= len(said) <= 101
