"""The interface of `pytest_rlab` in virtual time, by its fixture."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from client.admin.admin import Admin
from model.errors import InvalidParameter, TopicNotExist
from testbed.cluster.control.remote import BlockingCluster, RemoteCluster
from testbed.cluster.control.verbs import NotReached
from testbed.cluster.control.virtual import VirtualCluster
from testbed.pytest_plugin import rlab_simulate

__all__ = ["rlab_simulate"]
pytestmark = pytest.mark.simulation
Run = Callable[..., Any]


def test_faults_barriers_and_processes_are_those_of_a_real_cluster(rlab_simulate: Run) -> None:
    async def scenario(cluster: VirtualCluster) -> list[str]:
        await cluster.create_topic("orders", queues=2)
        with pytest.raises(NotReached, match=r"stable of billing was not reached within 1 s:\n"):
            await cluster.balanced("billing", timeout_s=1)
        members = [
            await cluster.simulated.start_consumer("billing", "orders", instance_name=name, session_timeout_s=10.0)
            for name in ("c1", "c2")
        ]
        producer = await cluster.simulated.start_producer()
        await cluster.balanced("billing", members=2)
        await cluster.owns("billing", "c2", queues=2)
        async with cluster.killed("broker-a"):
            await producer.send_many("orders", 10)
        await cluster.balanced("billing", members=2, timeout_s=60)
        async with cluster.refuse(client="c2") as fault:
            assert fault.at_once > 0
            assert (await fault.is_active(), [each["id"] for each in await cluster.faults()]) == (True, [1])
            await cluster.gone("billing", "c2", timeout_s=60)
            await cluster.owns("billing", "c1", queues=4)
        assert not await fault.is_active()
        await cluster.balanced("billing", members=2, timeout_s=60)
        await cluster.restart("broker-b")
        async with cluster.paused("broker-b"):
            await cluster.drop("HEART_BEAT", at="broker-a")
            with pytest.raises(InvalidParameter):
                await cluster.kill("broker-c")
        await cluster.heal()
        assert await cluster.faults() == []
        await cluster.passes("billing", timeout_s=60)
        await cluster.consumed("billing", timeout_s=60)
        assert (await cluster.group("billing"))["lag"] == 0
        assert len({body for member in members for body in member.bodies}) == 10
        assert (await cluster.report("billing"))["anomalies"] == []
        return [event.detail for event in cluster.simulated.events if event.kind == "FAULT_BEGAN"]

    assert list(dict.fromkeys(rlab_simulate(scenario, seed=3))) == [
        "kill broker-a",
        "refuse client=c2",
        "stop broker-b",
        "pause broker-b",
        "drop code=HEART_BEAT",
    ]


def test_a_test_waits_until_a_fault_has_hit(rlab_simulate: Run) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        async with cluster.drop("HEART_BEAT") as fault:
            with pytest.raises(NotReached, match="fault 1 has hit 0 times instead of 1 within 5 s"):
                await fault.hit(timeout_s=5)
            await cluster.simulated.start_consumer("billing", "orders")
            await fault.hit(2, timeout_s=30)
            assert await fault.done() >= 2

    rlab_simulate(scenario, seed=3)


def test_a_group_that_is_created_begins_with_the_first_message_and_has_its_settings(rlab_simulate: Run) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.create_topic("orders", queues=2)
        producer = await cluster.simulated.start_producer()
        await producer.send_many("orders", 10)
        await cluster.create_group("billing", "orders", retry_delays_s=[0.5, 2], max_attempts=3, fifo=True)
        billing = await cluster.simulated.start_consumer("billing", "orders")  # its own start is the end
        await cluster.consumed("billing")
        assert len(set(billing.bodies)) == 10
        await cluster.create_group("billing", "orders")
        await cluster.consumed("billing")
        assert len(billing.bodies) == 20, "it begins again"
        async with Admin(cluster.simulated.addresses) as admin:
            settings = (await admin.group("billing")).settings["broker-b"]
        assert (settings.retry_delays_ms, settings.max_attempts, settings.fifo) == ((500, 2_000), 3, True)
        wrong: tuple[tuple[str, dict[str, Any]], ...] = (
            ("no setting.*there are retry_delays_s, max_attempts, fifo", {"pause": 1}),
            ("must be a list of numbers", {"retry_delays_s": 1}),
            ("must be a list of numbers", {"retry_delays_s": [float("nan")]}),
        )
        for text, given in wrong:
            with pytest.raises(InvalidParameter, match=text):
                await cluster.create_group("billing", "orders", **given)
        with pytest.raises(TopicNotExist):
            await cluster.create_group("billing", "others")

    rlab_simulate(scenario, seed=3)


def test_a_seed_repeats_a_run_with_faults(rlab_simulate: Run) -> None:
    async def scenario(cluster: VirtualCluster) -> list[tuple[float, str]]:
        await cluster.create_topic("orders", queues=1)
        await cluster.simulated.start_consumer("billing", "orders")
        async with cluster.delay(0.2, jitter_s=0.1, for_s=5.0):
            await cluster.passes("billing", 5, timeout_s=600)
        await cluster.balanced("billing")
        return [(event.t_ms, event.kind) for event in cluster.simulated.events]

    first = rlab_simulate(scenario, seed=5, brokers=1)
    assert first == rlab_simulate(scenario, seed=5, brokers=1)


def test_the_interface_is_the_one_of_a_real_cluster() -> None:
    for theirs in (RemoteCluster, BlockingCluster):
        missing = calls_of(theirs) - calls_of(VirtualCluster)
        # Processes of consumers, and the requests themselves: a simulated cluster has neither.
        assert missing == {"add_consumer"} | ({"ask", "kill_consumers"} if theirs is BlockingCluster else set())
    awaited = {name for name in calls_of(RemoteCluster) if inspect.iscoroutinefunction(getattr(RemoteCluster, name))}
    assert {name for name in awaited if name in vars(VirtualCluster)} == awaited - {"add_consumer"}
    assert all(inspect.iscoroutinefunction(getattr(VirtualCluster, name)) for name in awaited - {"add_consumer"})


def calls_of(cluster: type) -> set[str]:
    return {name for name, value in inspect.getmembers(cluster, callable) if not name.startswith("_")}
