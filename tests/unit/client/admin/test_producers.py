"""An operator sees producer groups and their transactions, over all brokers, and the state of a half message."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from broker.config import Part
from client.admin.admin import Admin
from model.errors import GroupNotExist, InvalidParameter
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.test_transactions import COMMIT, ROLLBACK, UNKNOWN, Books, transact
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


def test_open_transactions_are_added_up_over_the_brokers_and_members_are_not(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1)
        await cluster.start_producer(group="plain")
        assert await admin.producer_groups() == ()
        producer = await cluster.start_transaction_producer("p", Books().checker("p", *[UNKNOWN] * 9))
        other = await cluster.start_transaction_producer("p", Books().checker("q", *[UNKNOWN] * 9))
        ids = [await transact(producer, b"%d" % n, UNKNOWN) for n in range(5)]
        await anyio.sleep(7)
        (group,) = await admin.producer_groups()
        assert (group.group, group.members, group.open, group.waiting) == ("p", 2, 5, 0)
        assert group.oldest_s == pytest.approx(7, abs=0.1)
        info = await admin.producer_group("p")
        assert [member.client_id.split("@")[0] for member in info.members] == [producer.host, other.host]
        assert all(member.answers_checks for member in info.members)
        assert info.open == 5
        assert {each.message_id for each in info.transactions} == set(ids)
        assert {each.checks for each in info.transactions} == {1}
        await producer.crash()
        await other.crash()
        await anyio.sleep(40)
        (group,) = await admin.producer_groups()
        assert (group.members, group.open, group.waiting) == (0, 5, 5)
        assert {each.next_check_s for each in (await admin.producer_group("p")).transactions} == {-1}

    administer(scenario, tmp_path)


def test_an_unknown_producer_group_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(GroupNotExist, match="there are none"):
            await admin.producer_group("unknown")
        await cluster.start_transaction_producer("p", Books().checker("p"))
        await anyio.sleep(1)
        with pytest.raises(GroupNotExist, match="there are p"):
            await admin.producer_group("unknown")
        with pytest.raises(InvalidParameter):
            await admin.producer_group("no group")

    administer(scenario, tmp_path)


def test_brokers_without_transactions_have_no_producer_groups(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        assert await admin.producer_groups() == ()

    administer(scenario, tmp_path, parts=frozenset(Part) - {Part.TRANSACTIONS})


def test_a_search_by_id_reports_the_state_of_a_half_message(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1)
        producer = await cluster.start_transaction_producer("p", Books().checker("p", *[UNKNOWN] * 9))
        opened, committed, rolled_back = [
            await transact(producer, b"x", state) for state in (UNKNOWN, COMMIT, ROLLBACK)
        ]
        await anyio.sleep(7)

        async def places(message_id: str) -> list[tuple[str, int, str]]:
            found = (await admin.view_message(message_id)).messages
            return [(each.message.queue.topic, each.message.offset, each.half) for each in found]

        assert await places(opened) == [("t", -1, "open: 1 checks, next check in 29 s")]
        assert sorted(await places(committed)) == [("t", -1, "ended"), ("t", 0, "")]
        assert await places(rolled_back) == [("t", -1, "ended")]
        await producer.crash()
        await anyio.sleep(40)
        assert await places(opened) == [("t", -1, "open: 1 checks, waits for a producer of its group")]

    administer(scenario, tmp_path, brokers=1)
