"""Every member of a group asks the same broker who is in it, and hears the whole list only when it changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import msgpack
import pytest

from client.instance.instance import ClientInstance
from model.errors import ConnectFailed
from model.events import EventKind
from model.quirks import Quirk
from remoting.command import Command
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, introduce, running_instance

__all__ = ["wire"]

ASK = "GET_CONSUMER_LIST_BY_GROUP"


async def fetch(instance: ClientInstance, *topics: str) -> tuple[str, list[str]] | None:
    fetched = await instance.views.fetch("g", topics)
    return None if fetched is None else (fetched.address, list(fetched.view.members))


def test_the_first_broker_by_name_that_serves_a_topic_is_asked(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", brokers=["broker-b", "broker-c"])
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            await instance.update_routes(("%RETRY%g",))
            assert await fetch(instance, "t", "%RETRY%g") == ("broker-b:10911", ["c@1"])
            assert [sent.target for sent in wire.sent if sent.code.name == ASK] == ["broker-b"]

    simulate(scenario, brokers=3)


def test_the_next_one_is_asked_when_it_is_away_and_all_are_named_when_none_answers(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            await cluster.brokers["broker-a"].crash()
            assert await fetch(instance, "t") == ("broker-b:10911", ["c@1"])
            await cluster.brokers["broker-b"].crash()
            with pytest.raises(ConnectFailed, match=r"members of group 'g': broker-a:10911: .*; broker-b:10911: "):
                await fetch(instance, "t")

    simulate(scenario)


def test_an_unchanged_list_is_not_sent_again(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            version = instance.views.known_version("g", "broker-a:10911")
            assert version == -1
            first = await instance.views.fetch("g", ["t"])
            second = await instance.views.fetch("g", ["t"])
            assert first is not None
            assert second is not None
            assert first.view is second.view
            asked = [sent.header["known_version"] for sent in wire.sent if sent.code.name == ASK]
            assert asked == [-1, first.view.version]
            assert instance.views.known_version("g", "broker-a:10911") == first.view.version
            async with running_instance(cluster, "d") as other:
                await introduce(other, FakeMember("g", "t"))
                assert await fetch(instance, "t") == ("broker-a:10911", ["c@1", "d@1"])
            instance.views.forget("g")
            assert instance.views.known_version("g", "broker-a:10911") == -1

    simulate(scenario)


def test_clients_of_one_process_share_the_newest_list(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with AsyncExitStack() as stack:
            instances = [await stack.enter_async_context(running_instance(cluster, name)) for name in "cdef"]
            for instance in instances[:3]:
                await introduce(instance, FakeMember("g", "t"))
            await fetch(instances[0], "t")
            await introduce(instances[3], FakeMember("g", "t"))
            for instance in instances:
                assert await fetch(instance, "t") == ("broker-a:10911", ["c@1", "d@1", "e@1", "f@1"])
            newest = instances[0].views.known_version("g", "broker-a:10911")
            asked = [sent.header["known_version"] for sent in wire.sent if sent.code.name == ASK]
            assert asked == [-1, newest - 1, newest, newest, newest]
            assert all(sent.header["difference"] for sent in wire.sent if sent.code.name == ASK)

    simulate(scenario)


def asks(wire: WireTap) -> int:
    return sum(sent.code.name == ASK for sent in wire.sent)


@asynccontextmanager
async def notified_of_the_fifth(cluster: SimulatedCluster) -> AsyncIterator[ClientInstance]:
    """The instance of a member that has fetched a list of four, and then was notified of the fifth."""
    await cluster.create_topic("t")
    async with AsyncExitStack() as stack:
        instance, *others = [await stack.enter_async_context(running_instance(cluster, name)) for name in "cdefg"]
        for each in (instance, *others[:3]):
            await introduce(each, FakeMember("g", "t"))
            await anyio.sleep(1)
        await fetch(instance, "t")
        await introduce(others[3], FakeMember("g", "t"))
        await anyio.sleep(1)
        yield instance


def test_a_list_that_came_with_the_notification_is_not_asked_for(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with notified_of_the_fifth(cluster) as instance:
            before = asks(wire)
            reported = await instance.views.fetch("g", ["t"], notified=True)
            assert reported is not None
            assert list(reported.view.members) == ["c@1", "d@1", "e@1", "f@1", "g@1"]
            assert asks(wire) == before
            # Whoever is not woken by a notification asks: one may have been lost.
            await fetch(instance, "t")
            assert asks(wire) == before + 1

    simulate(scenario)


def test_after_the_notification_of_another_change_by_another_broker_the_list_is_asked_for(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with notified_of_the_fifth(cluster) as instance:
            before, same = asks(wire), cluster.events_of(EventKind.NOTIFY_RECEIVED)[-1].cause
            for cause, asked in ((same, 0), ("another/1", 1)):
                instance.views.notified("g", "broker-b:10911", cause, None, None)
                await instance.views.fetch("g", ["t"], notified=True)
                assert asks(wire) == before + asked

    simulate(scenario)


def test_a_difference_that_does_not_fit_is_not_believed(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            await fetch(instance, "t")
            version, before = instance.views.known_version("g", "broker-a:10911"), asks(wire)
            # One from a list that we never had, and one that leads to another number of members than the broker has.
            for since, wrong in (
                (version + 1, [version + 2, 2, [[["t"], ["d@1"]]], []]),
                (version, [version + 1, 7, [], []]),
            ):
                instance.views.notified("g", "broker-a:10911", "root/1", since, msgpack.packb(wrong))
                assert await instance.views.fetch("g", ["t"], notified=True) is not None
            assert asks(wire) == before + 2
            assert instance.views.known_version("g", "broker-a:10911") == version

    simulate(scenario)


def test_an_answer_that_a_notification_has_overtaken_does_not_bring_the_old_list_back(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            await fetch(instance, "t")
            version = instance.views.known_version("g", "broker-a:10911")
            request = instance.views._remoting.request

            async def overtaken(*arguments: Any) -> Command:
                answer = await request(*arguments)
                difference = msgpack.packb([version + 1, 2, [[["t"], ["d@1"]]], []])
                instance.views.notified("g", "broker-a:10911", "root/1", version, difference)
                return answer

            monkeypatch.setattr(instance.views._remoting, "request", overtaken)
            assert await fetch(instance, "t") == ("broker-a:10911", ["c@1", "d@1"])
            reported = await instance.views.fetch("g", ["t"], notified=True)
            assert reported is not None
            assert reported.view.version == version + 1

    simulate(scenario)


def test_where_no_topic_of_a_member_exists_the_brokers_of_its_retry_topic_are_asked(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            assert await fetch(instance) is None
            assert await fetch(instance, "other", "%RETRY%g") is None, "nobody knows where that is"
            await instance.update_routes(("%RETRY%g",))
            assert await fetch(instance, "other", "%RETRY%g") == ("broker-a:10911", ["c@1"])

    simulate(scenario)


def test_a_member_that_has_only_its_retry_topic_left_still_asks(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await introduce(instance, FakeMember("g", "t"))
            await instance.update_routes(("%RETRY%g",))
            assert await fetch(instance, "%RETRY%g") == ("broker-a:10911", ["c@1"])

    simulate(scenario)


def test_an_unknown_group_has_no_members(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster) as instance:
            await instance.update_routes(("t",))
            assert await fetch(instance, "t") == ("broker-a:10911", [])

    simulate(scenario)


@pytest.mark.parametrize("quirks", [frozenset(), frozenset({Quirk.RANDOM_VIEW})])
def test_under_its_quirk_any_broker_is_asked(simulate: Simulate, quirks: frozenset[Quirk]) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        async with running_instance(cluster, quirks=quirks) as instance:
            await introduce(instance, FakeMember("g", "t"))
            asked = {(await fetch(instance, "t") or ("nobody", []))[0] for _ in range(50)}
            assert asked == ({"broker-a:10911", "broker-b:10911", "broker-c:10911"} if quirks else {"broker-a:10911"})

    simulate(scenario, brokers=3)
