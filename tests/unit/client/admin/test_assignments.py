"""Modes are set on every broker, and assignments are found wherever they were made."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client.admin.admin import Admin
from model.assignment import RequestMode
from model.errors import IllegalOperation, InvalidParameter, NetworkError, TopicNotExist
from simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


def test_a_mode_is_known_to_every_broker_also_before_the_group_has_members(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await admin.set_request_mode("g", "t", "POP", pop_share_queue_num=2)
        for server in cluster.brokers.values():
            mode = server.running.broker.assignments.mode_of("g", "t")
            assert (mode.mode, mode.pop_share_queue_num) == (RequestMode.POP, 2)
        [mode_info] = (await admin.assignment("g")).modes
        assert (mode_info.topic, mode_info.mode, mode_info.pop_share_queue_num) == ("t", RequestMode.POP, 2)

    administer(scenario, tmp_path)


def test_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        cluster.simulation.network.partition("operator", "broker-b")
        with pytest.raises(NetworkError, match="could not be set on broker broker-b"):
            await admin.set_request_mode("g", "t", RequestMode.POP)

    administer(scenario, tmp_path)


def test_a_topic_that_the_cluster_does_not_have_is_refused_and_one_that_a_single_broker_has_is_not(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(TopicNotExist, match="'ordrs' does not exist"):
            await admin.set_request_mode("g", "ordrs", RequestMode.POP)
        await admin.create_topic("orders", 1, brokers=["broker-b"])
        await admin.set_request_mode("g", "orders", RequestMode.POP)
        for server in cluster.brokers.values():
            assert list(server.running.broker.assignments.modes_of("g")) == ["orders"]

    administer(scenario, tmp_path)


def test_what_is_no_mode_or_topic_is_refused(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(InvalidParameter, match="PULL, POP"):
            await admin.set_request_mode("g", "t", "pull")
        with pytest.raises(IllegalOperation, match="retry topic"):
            await admin.set_request_mode("g", "%RETRY%g", "POP")
        with pytest.raises(InvalidParameter):
            await admin.assignment("")

    administer(scenario, tmp_path)


def test_the_assignment_of_a_group_that_shares_for_itself_is_none(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert (await admin.assignment("g")).version == 0

    administer(scenario, tmp_path)
