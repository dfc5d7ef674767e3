"""Groups of a cluster with an absent broker; the rest of a group is tried in `test_admin.py`."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client.admin.admin import Admin
from model.errors import GroupNotExist
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


def test_a_group_keeps_the_queues_of_an_absent_broker_apart(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("orders", 2)
        await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        assert (await admin.group("billing")).absent_queues == ()
        await cluster.brokers["broker-b"].crash()
        await anyio.sleep(5)
        group = await admin.group("billing")
        assert {row.queue.broker_name for row in group.queues} == {"broker-a"}
        assert {str(queue) for queue in group.absent_queues} == {
            "%RETRY%billing@broker-b:0",
            "orders@broker-b:0",
            "orders@broker-b:1",
        }
        with pytest.raises(GroupNotExist, match=r"'nope'; known groups: billing; broker broker-b .*, and may know it"):
            await admin.group("nope")

    administer(scenario, tmp_path, brokers=2)


def test_targets_have_the_queues_of_a_lost_broker_for_as_long_as_members_keep_them(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("orders", 2)
        for _ in range(2):
            await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1.0)
        await cluster.brokers["broker-b"].crash()
        for wait_s in (5.0, 20.0, 15.0):  # while they are kept, and when they have been given up
            await anyio.sleep(wait_s)
            group = await admin.group("billing")
            assert group.balanced, f"{wait_s} s on"
            assert group.absent_queues

    administer(scenario, tmp_path, brokers=2)


def test_a_group_whose_only_member_died_before_it_committed_anything_is_known_and_has_no_members(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("orders", 2)
        await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(60, retry_topics=True)
        await cluster.consumers[0].crash()
        await anyio.sleep(2)
        group = await admin.group("billing")
        assert (group.members, group.queues) == ((), ())

    administer(scenario, tmp_path)


def test_a_group_whose_dead_member_still_owns_queues_has_not_converged(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("orders", 2)
        for _ in range(2):
            await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(60, retry_topics=True)
        assert (await admin.group("billing")).unattended == {}
        (dead, its) = next((each.client_id, each.queues) for each in (await admin.group("billing")).members)
        await next(each for each in cluster.consumers if each.consumer.client_id == dead).crash()
        await anyio.sleep(0.1)  # the connections are closed, and the brokers wait for its return
        group = await admin.group("billing")
        assert all(queue.settled for queue in group.queues), "every owner is the target, but one of them is dead"
        assert not group.balanced
        assert group.unattended == {dead: its}
        why = "its connection is closed, and it leaves in 0.2 s unless it comes back"
        assert [member.away_at for member in group.members] == [{"broker-a": why, "broker-b": why}, {}]
        await anyio.sleep(2)
        group = await admin.group("billing")
        assert (group.balanced, group.unattended, len(group.members)) == (True, {}, 1)

    administer(scenario, tmp_path, brokers=2)
