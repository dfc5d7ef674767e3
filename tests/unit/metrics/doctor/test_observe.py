"""The doctor at simulated clusters: healthy ones, and such where something was planted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from metrics.doctor.observe import observe
from metrics.doctor.problems import Problem
from metrics.doctor.rules import diagnose
from model.replica_set import Elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer
from traces.check.check import HistoryCheck
from traces.check.verdict import Answer

pytestmark = pytest.mark.simulation


def found(
    plant: Callable[[SimulatedCluster, Admin], Awaitable[Any]], data_dir: Path, after_s: float = 2.0, **options: Any
) -> set[Problem]:
    """The problems of a cluster with a group of two, some seconds after something was planted."""

    async def scenario(cluster: SimulatedCluster, admin: Admin) -> set[Problem]:
        await admin.create_topic("t", 2)
        for _ in range(2):
            consumer = await cluster.start_consumer("g", "t")
            assert consumer
        await anyio.sleep(5)
        await plant(cluster, admin)
        await anyio.sleep(after_s)
        with cluster.simulation.on_host("doctor"):
            seen = await observe(cluster.addresses, clock_ms=cluster.simulation.clock_ms)
        return {each.problem for each in diagnose(seen)}

    return administer(scenario, data_dir, trace=True, **options)


def test_a_healthy_cluster_has_no_finding_even_while_a_member_joins(tmp_path: Path) -> None:
    async def join(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.start_consumer("g", "t")

    assert found(join, tmp_path, after_s=0.0) == set()


def test_a_broker_that_hangs_is_found_while_it_is_registered(tmp_path: Path) -> None:
    async def hang(cluster: SimulatedCluster, admin: Admin) -> None:
        cluster.simulation.network.stall("broker-b")

    assert Problem.BROKER_AWAY in found(hang, tmp_path)


def test_a_broker_that_was_killed_is_found_until_it_returns_and_one_that_stopped_is_not(tmp_path: Path) -> None:
    async def kill(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.brokers["broker-b"].crash()

    async def kill_and_start(cluster: SimulatedCluster, admin: Admin) -> None:
        await kill(cluster, admin)
        await anyio.sleep(10)
        await cluster.brokers["broker-b"].start()

    async def stop(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.brokers["broker-b"].stop()

    assert found(kill, tmp_path / "1", after_s=6.0) == {Problem.BROKER_AWAY}
    assert found(kill_and_start, tmp_path / "2", after_s=30.0) == set()
    assert found(stop, tmp_path / "3", after_s=6.0) == set()


def test_a_broker_with_copies_has_no_finding_until_one_is_lost_and_then_it_is_named_which(tmp_path: Path) -> None:
    async def wait(cluster: SimulatedCluster, admin: Admin) -> None:
        await anyio.sleep(5)

    async def lose_the_master(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.replicas["broker-a-1"].crash()

    async def lose_the_other(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.replicas["broker-a-2"].crash()

    pair: dict[str, Any] = {"brokers": 1, "copies": 2, "set_options": {"elect": Elect.OPERATOR}}
    assert found(wait, tmp_path / "1", **pair) == set()
    assert found(lose_the_master, tmp_path / "2", **pair) == {Problem.MASTER_AWAY}
    assert found(lose_the_master, tmp_path / "3", after_s=40.0, **pair) == {Problem.MASTER_AWAY}
    assert found(lose_the_other, tmp_path / "4", **pair) == {Problem.ONE_COPY}


def test_a_clock_that_is_ahead_is_found(tmp_path: Path) -> None:
    async def skew(cluster: SimulatedCluster, admin: Admin) -> None:
        cluster.skewed_ms["broker-a"] = 60_000

    assert found(skew, tmp_path) == {Problem.CLOCKS_APART}


def test_the_clock_of_a_client_that_is_ahead_is_found(tmp_path: Path) -> None:
    async def start(cluster: SimulatedCluster, admin: Admin) -> None:
        cluster.clocks["late"] = lambda: 2_000
        await cluster.start_consumer("g", "t", host="late", trace=True)

    assert found(start, tmp_path, after_s=8.0) == {Problem.CLOCKS_APART}


def test_twenty_members_that_start_five_that_are_killed_and_replaced_and_a_restarted_broker_have_no_finding(
    tmp_path: Path,
) -> None:
    """And the history check says yes of the same trace."""

    async def scenario(cluster: SimulatedCluster, admin: Admin) -> tuple[list[str], Answer, list[str]]:
        await admin.create_topic("t", 10)
        cluster.client_options["trace"] = True
        members = [await cluster.start_consumer("g", "t") for _ in range(20)]
        await anyio.sleep(30)
        for member in members[:5]:
            await member.crash()
            await cluster.start_consumer("g", "t")
            await anyio.sleep(2)
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(15)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(60)
        with cluster.simulation.on_host("doctor"):
            seen = await observe(cluster.addresses, clock_ms=cluster.simulation.clock_ms)
        check = HistoryCheck()
        for event in seen.events:
            check.feed(event)
        verdict = check.finish()
        found = [f"{each.problem} {each.subject}: {each.evidence}" for each in diagnose(seen)]
        return found, verdict.answer, [each.text for each in verdict.anomalies if not each.doubt]

    found, answer, anomalies = administer(scenario, tmp_path, trace=True)
    assert (found, anomalies) == ([], [])
    assert answer is Answer.YES


def test_a_group_that_is_switched_off_and_a_member_that_is_suspended_are_found(tmp_path: Path) -> None:
    async def off(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.set_group("g", consume=False)

    async def suspend(cluster: SimulatedCluster, admin: Admin) -> None:
        consumer = cluster.consumers[0]
        with cluster.simulation.on_host(consumer.host):
            consumer.consumer.suspend()
        await anyio.sleep(60)  # it is told with the next heartbeat

    assert found(off, tmp_path / "1") == {Problem.GROUP_OFF}
    assert found(suspend, tmp_path / "2") == {Problem.MEMBER_SUSPENDED}
