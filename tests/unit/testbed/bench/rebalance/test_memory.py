from __future__ import annotations

from pathlib import Path

from client.admin.admin import Admin
from testbed.bench.kit.echo import TOPIC
from testbed.bench.rebalance.memory import GROUPS, idle_groups
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet


def test_every_idle_consumer_is_a_member_with_a_lease_and_a_held_pull(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            embedded(simulation, tmp_path, TOPIC, 2) as cluster,
            idle_groups(cluster.name_server, 2, quiet),
            Admin(cluster.name_server) as admin,
        ):
            groups = [await admin.group(f"bench-{number:02d}") for number in range(GROUPS)]
            held = (await admin.broker_info("broker-a")).held_pulls
        assert [len(group.members) for group in groups] == [2] * GROUPS
        owners = [{each.owner for each in group.queues if each.queue.topic == TOPIC} for group in groups]
        assert owners == [{member.client_id for member in group.members} for group in groups]
        assert held >= 2 * GROUPS

    run_simulation(main)
