"""What pages are told of topics while brokers are away; the rest of these documents is in tests/tcp/test_console.py."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from console.overview import overview, topic_document
from model.errors import NetworkError, TopicNotExist
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import PAIR, wait_in_sync


async def document(cluster: SimulatedCluster, topic: str, *silent: str) -> dict[str, Any]:
    """The document while these brokers are silent, although name servers know them."""
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            if not silent:
                return await topic_document(admin, topic)
            with cluster.simulation.network.partition("operator", list(silent)):
                return await topic_document(admin, topic)


def test_a_topic_that_no_broker_has_is_an_error_and_not_an_empty_table(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(TopicNotExist, match="no broker has topic 'nothing'"):
            await document(cluster, "nothing")

    simulate(scenario)


def test_a_broker_that_is_silent_hides_its_own_queues_alone_and_is_named(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        whole = await document(cluster, "t")
        assert [each["queue"] for each in whole["queues"]] == ["broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1"]
        assert whole["problems"] == []
        part = await document(cluster, "t", "broker-a")
        assert part["queues"] == whole["queues"][2:]
        [problem] = part["problems"]
        assert problem.startswith("broker broker-a: ")
        # Nobody knows whether the silent one has it.
        elsewhere = await document(cluster, "nothing", "broker-a")
        assert (elsewhere["queues"], elsewhere["problems"]) == ([], part["problems"])
        with pytest.raises(NetworkError):
            await document(cluster, "t", "broker-a", "broker-b")

    simulate(scenario)


def test_a_broker_that_was_killed_stays_on_the_pages_as_away(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.brokers["broker-b"].crash()
        await anyio.sleep(70)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                whole, topic = await overview(admin, ""), await topic_document(admin, "t")
        away = {each["name"]: each for each in whole["brokers"]}["broker-b"]
        assert (away["away"], away["address"]) == (True, "broker-b:10911")
        assert away["error"] == "away: it closed its connection 1 min ago without unregistering"
        gone = "broker broker-b at broker-b:10911 closed its connection without unregistering"
        assert whole["problems"] == [f"{gone}: its queues and its part of the trace are missing"]
        assert topic["problems"] == [f"{gone}: its 2 queues are away"]
        assert [each["queue"] for each in topic["queues"]] == ["broker-a:0", "broker-a:1"]

    simulate(scenario)


def test_the_replicas_of_a_broker_are_shown_with_their_roles_and_the_epoch(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2)

        async def copies() -> Any:
            with cluster.simulation.on_host("operator"):
                async with Admin(cluster.addresses) as admin:
                    [broker] = (await overview(admin, ""))["brokers"]
                    return broker["copies"]

        found = await copies()
        assert (found["epoch"], found["wanted"]) == (1, 2)
        assert [(each["id"], each["role"], each["in_sync"]) for each in found["replicas"]] == [
            (1, "master", True),
            (2, "following", True),
        ]
        await cluster.replicas["broker-a-2"].stop()
        await wait_in_sync(cluster, 1)
        assert [(each["id"], each["role"], each["in_sync"]) for each in (await copies())["replicas"]] == [
            (1, "master", True),
            (2, "does not answer", False),
        ]

    simulate(scenario, **PAIR)


def test_a_broker_without_copies_has_no_replicas(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                assert [broker["copies"] for broker in (await overview(admin, ""))["brokers"]] == [None, None]

    simulate(scenario)


def test_topics_of_users_and_the_busiest_group_come_first(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("z", queues=2)
        for group, members in (("alone", 1), ("pair", 2)):
            for _ in range(members):
                await cluster.start_consumer(group, "z")
        await cluster.wait_converged(1)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                found = await overview(admin, "")
        assert [each["group"] for each in found["groups"]] == ["pair", "alone"]
        listed = [(each["topic"], each["kind"]) for each in found["topics"]]
        assert listed[:3] == [("z", ""), ("%RETRY%alone", "retries"), ("%RETRY%pair", "retries")]
        assert ("SYS_TRACE", "system") in listed

    simulate(scenario)
