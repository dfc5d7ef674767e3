"""How a member finds its target: when it asks for the list of the members, and when a pass has nothing new."""

from __future__ import annotations

from random import Random

import anyio
import pytest

from broker.groups.faults import make_fault_hook
from client.trigger import Trigger
from model.events import EventKind
from remoting.faults.fault import parse_fault
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.rebalance.test_leased_queues import Q2, Q3, busy_on_queue_three

__all__ = ["wire"]


@pytest.mark.walk
def test_when_a_queue_comes_free_only_its_lease_is_asked_for_and_not_the_members_again(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.client_options |= {"triggers": frozenset(Trigger) - {Trigger.TIMER}}
        await busy_on_queue_three(cluster)
        second = await cluster.start_consumer("g", "t", host="second")
        await anyio.sleep(0.5)
        assert second.queues == [Q2]
        since_s = cluster.simulation.loop.time()
        await anyio.sleep(4)
        assert second.queues == [Q2, Q3]
        codes = wire.codes("second", since_s=since_s)
        assert "LOCK_BATCH_MQ" in codes
        assert "GET_CONSUMER_LIST_BY_GROUP" not in codes

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("is_first_lost", [False, True])
def test_one_change_that_two_brokers_notify_of_is_one_pass_and_it_is_enough_to_receive_of_it_once(
    simulate: Simulate, is_first_lost: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        owner = await cluster.start_consumer("g", "t", host="c1")
        await cluster.start_consumer("g", "t", host="c2")
        await cluster.wait_converged(5)
        await anyio.sleep(5)
        cluster.simulation.network.set_latency("broker-b", "c1", 0.05, one_way=True)
        if is_first_lost:
            broker = cluster.brokers["broker-a"].running
            hook = make_fault_hook(broker.server, broker.broker.groups, broker.broker.events, Random(1))
            hook.begin(parse_fault({"do": "drop", "code": "NOTIFY_CONSUMER_IDS_CHANGED", "client": owner.client_id}))
        at = len(cluster.events)
        await cluster.start_consumer("g", "t", host="c3")  # for it there is no queue
        await anyio.sleep(1)
        assert len(cluster.events_of(EventKind.NOTIFY_RECEIVED, at, client=owner.client_id)) == 2 - is_first_lost
        (end,) = cluster.events_of(EventKind.REBALANCE_END, at, client=owner.client_id)
        joined = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
        assert joined is not None
        assert end.version == joined.version

    simulate(scenario, brokers=2)
