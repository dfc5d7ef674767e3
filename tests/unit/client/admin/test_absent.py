"""Absent brokers, as operators see them: over all name servers, with what nobody can know, and forgotten on request."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client.admin.admin import Admin
from model.errors import InvalidParameter, ServiceNotAvailable
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


def test_a_killed_broker_is_absent_until_it_returns_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("orders", 2)
        assert (await admin.absent_brokers()).brokers == ()
        await cluster.brokers["broker-b"].crash()
        await anyio.sleep(5)
        absence = await admin.absent_brokers()
        [away] = absence.brokers
        assert (away.broker_name, away.address) == ("broker-b", "broker-b:10911")
        assert away.away_s == pytest.approx(5, abs=0.5)
        assert away.queues_of("orders") == [MessageQueue("orders", "broker-b", n) for n in range(2)]
        assert absence.known_for_s is not None
        assert absence.known_for_s > away.away_s
        with pytest.raises(InvalidParameter, match=r"'broker-b' is not registered: broker broker-b at .* 5 s ago; reg"):
            await admin.broker_info("broker-b")
        await cluster.brokers["broker-b"].start()
        await anyio.sleep(5)
        assert (await admin.absent_brokers()).brokers == ()
        await cluster.brokers["broker-b"].stop()
        await anyio.sleep(5)
        assert (await admin.absent_brokers()).brokers == ()

    administer(scenario, tmp_path, brokers=2)


def test_what_one_name_server_forgot_at_its_restart_another_one_still_reports(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.brokers["broker-b"].crash()
        await anyio.sleep(5)
        for name in list(cluster.name_servers):
            await cluster.name_servers[name].crash()
            absence = await admin.absent_brokers()
            assert [each.broker_name for each in absence.brokers] == ["broker-b"] * (name == "namesrv-1")
            assert len(absence.unable) == 1
            await cluster.name_servers[name].start()
            await anyio.sleep(5)
        assert (await admin.absent_brokers()).known_for_s == pytest.approx(10, abs=1)

    administer(scenario, tmp_path, brokers=2, name_servers=2)


def test_an_absent_broker_can_be_forgotten_and_no_other(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(InvalidParameter, match="'broker-b' is registered: stop it first"):
            await admin.forget_broker("broker-b")
        for name in ("broker-a", "broker-b"):
            await cluster.brokers[name].crash()
        await anyio.sleep(5)
        with pytest.raises(ServiceNotAvailable, match=r"no broker is registered .*; broker broker-a at .*; broker b"):
            await admin.groups()
        assert await admin.forget_broker("broker-b") == 2
        with pytest.raises(InvalidParameter, match="no broker 'broker-b' is away; brokers that are away: broker-a"):
            await admin.forget_broker("broker-b")

    administer(scenario, tmp_path, brokers=2, name_servers=2)
