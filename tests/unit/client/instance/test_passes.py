"""The passes of an instance: when they begin, when they are repeated, and that groups do not wait for each other."""

from __future__ import annotations

import logging
from itertools import pairwise

import anyio
import pytest

from client.instance.schedule import RebalancePass
from client.trigger import Trigger
from model.errors import ConnectFailed
from model.limits import REBALANCE_INTERVAL_S, REBALANCE_RETRY_S
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.unit.client.instance.members import FakeMember, introduce, running_instance

AT_ONCE_S = 0.1
"""Some round trips of the simulated network, which take 1 ms each."""


def test_a_member_has_its_first_pass_when_it_is_introduced_and_not_before(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            member = FakeMember()
            instance.register(member)
            await instance.update_routes(member.topics())
            await instance.heartbeats.send()
            await anyio.sleep(0.5)
            assert member.passes == []
            instance.start_rebalancing(member, "root/1")
            await anyio.sleep(AT_ONCE_S)
            assert member.passes == [RebalancePass("g", (Trigger.START,), "root/1")]

    simulate(scenario)


def test_a_pass_that_fails_or_is_not_balanced_is_repeated_soon_and_a_balanced_one_at_the_interval(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster, triggers=frozenset({Trigger.START, Trigger.TIMER})) as instance:
            member, times = FakeMember(), []

            def fails_then_stays_unbalanced_then_balances() -> None:
                times.append(cluster.simulation.loop.time())
                member.balanced = len(times) > 2
                if len(times) == 1:
                    raise ConnectFailed("nobody there")

            member.on_pass = fails_then_stays_unbalanced_then_balances
            await introduce(instance, member)
            await anyio.sleep(30)
            waits = [later - earlier for earlier, later in pairwise(times)]
            assert waits == pytest.approx([REBALANCE_RETRY_S, REBALANCE_RETRY_S, REBALANCE_INTERVAL_S])

    with caplog.at_level(logging.WARNING):
        simulate(scenario)
    assert "c@1: rebalance of group g: nobody there" in caplog.messages


def test_groups_of_one_instance_do_not_wait_for_each_other(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            slow, quick = FakeMember("slow"), FakeMember("quick")
            slow.on_pass = anyio.sleep_forever
            await introduce(instance, slow)
            await introduce(instance, quick)
            await anyio.sleep(AT_ONCE_S)
            assert (len(slow.passes), len(quick.passes)) == (1, 1)
            instance.wake("slow", Trigger.LOCK)
            instance.wake("quick", Trigger.LOCK)
            await anyio.sleep(AT_ONCE_S)
            assert (len(slow.passes), len(quick.passes)) == (1, 2), "one group runs one pass at a time"

    simulate(scenario)
