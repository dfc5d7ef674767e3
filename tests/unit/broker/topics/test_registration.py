"""A broker keeps itself known: to every name server, at once and again, and whichever of them is away."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from typing import Any

import pytest

from model.errors import BrokerNameTaken, ConfigError, RlabError, StaleRegistration
from model.limits import REGISTER_RETRY_MAX_S
from model.topic_route import Perm
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import serve
from tests.unit.broker.harness import ADDRESS, HOST, LATENCY_S, World, simulated, unpacked

SETTLED_S = 0.01
"""A few round trips: time enough for a registration that is under way."""


def _without_wait(header: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request itself; how long its sender waits is no part of the registration."""
    return {name: value for name, value in header.items() if name != "wait_ms"}


class FakeNameServer:
    """Takes registrations, or refuses them.

    Attributes:
        address: where it listens.
        registrations: (virtual time, header, topic -> [read, write, perm]) of each.
        farewells: header of each.
        refusal: what every registration is answered with, if not None.
    """

    def __init__(self, world: World, host: str) -> None:
        self.address = f"{host}:9876"
        self.registrations: list[tuple[float, dict[str, Any], dict[str, list[int]]]] = []
        self.farewells: list[dict[str, Any]] = []
        self.refusal: RlabError | None = None
        self._world = world
        self._host = host
        self._running = AsyncExitStack()

    async def __aenter__(self) -> FakeNameServer:
        handlers = {RequestCode.REGISTER_BROKER: self._register, RequestCode.UNREGISTER_BROKER: self._unregister}
        with self._world.simulation.on_host(self._host):
            await self._running.enter_async_context(serve(handlers, self.address))
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._world.stop_broker()  # started inside, so it ends before
        await self._running.aclose()

    def _register(self, connection: Connection, request: Command) -> Reply:
        topics = {topic: rest for topic, *rest in unpacked(request)}
        self.registrations.append((self._world.now, _without_wait(request.header), topics))
        if self.refusal is not None:
            raise self.refusal
        return Reply({"changed": True})

    def _unregister(self, connection: Connection, request: Command) -> Reply:
        self.farewells.append(_without_wait(request.header))
        return Reply({})

    @property
    def moments(self) -> list[float]:
        return [moment for moment, _, _ in self.registrations]

    @property
    def versions(self) -> list[int]:
        return [header["version"] for _, header, _ in self.registrations]


async def start_broker(world: World, *name_servers: FakeNameServer, **options: Any) -> None:
    await world.start_broker(name_servers=tuple(server.address for server in name_servers), **options)


@simulated
async def test_a_broker_registers_with_every_name_server_at_once(world: World) -> None:
    async with FakeNameServer(world, "ns1") as first, FakeNameServer(world, "ns2") as second:
        await start_broker(world, first, second, cluster="c", broker_id=3, expiry_s=60.0, register_interval_s=20.0)
        await world.sleep(SETTLED_S)
        for server in (first, second):
            [(moment, header, topics)] = server.registrations
            assert moment == 3 * LATENCY_S
            assert header["version"] > 0
            assert header | {"version": 0, "cause": "", "data_id": 0} == {
                "cluster": "c",
                "broker_name": "broker-a",
                "broker_id": 3,
                "address": ADDRESS,
                "version": 0,
                "expiry_ms": 60_000,
                "newcomer": True,
                "cause": "",
                "data_id": 0,
            }
            assert topics["TBW102"] == [8, 8, int(Perm.READ | Perm.WRITE | Perm.INHERIT)]
            assert topics["SYS_TRACE"] == [1, 1, 6]


@simulated
async def test_one_can_wait_until_every_name_server_has_seen_it_or_is_known_to_be_away(world: World) -> None:
    async with FakeNameServer(world, "ns1") as away, FakeNameServer(world, "ns2") as server:
        with world.simulation.network.refuse("ns1", 9876):
            await start_broker(world, away, server)
            assert server.registrations == []
            await world.broker.topics.registration.wait_attempted()
            assert len(server.registrations) == 1
            assert world.now < SETTLED_S


@simulated
async def test_it_registers_again_on_its_timer(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server, register_interval_s=20.0)
        await world.sleep(50)
        assert server.moments == pytest.approx([0, 20, 40], abs=0.05)
        assert len(set(server.versions)) == 1


@simulated
async def test_a_changed_topic_is_announced_at_once_with_a_greater_version_and_its_cause(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server)
        await world.sleep(1)
        before = world.now
        await world.peer("a").put_topic("t", read=3, write=2)
        await world.sleep(SETTLED_S)
        _, (moment, header, topics) = server.registrations
        assert moment - before < 6 * LATENCY_S
        assert topics["t"] == [3, 2, 6]
        assert server.versions[1] > server.versions[0]
        assert header["cause"] == next(event.id for event in world.events if event.topic == "t")


@simulated
async def test_topics_that_can_neither_be_read_nor_written_are_not_announced(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server)
        a = world.peer("a")
        await a.put_topic("dead", perm=0)
        await a.put_topic("full", perm=int(Perm.READ))
        await world.sleep(SETTLED_S)
        _, _, topics = server.registrations[-1]
        assert ("dead" in topics, topics["full"]) == (False, [4, 4, 4])


@simulated
async def test_a_change_while_a_registration_is_under_way_is_announced_after_it(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server)
        await world.sleep(3.5 * LATENCY_S)  # asked, not answered
        world.broker.topics.registration.announce_change("")
        await world.sleep(SETTLED_S)
        assert len(server.moments) == 2


@simulated
async def test_a_name_server_that_is_away_delays_no_other_and_is_found_when_it_comes(world: World) -> None:
    async with FakeNameServer(world, "ns1") as away, FakeNameServer(world, "ns2") as server:
        with world.simulation.network.refuse("ns1", 9876):
            await start_broker(world, away, server)
            await world.sleep(50)
            assert away.moments == []
            assert server.moments == pytest.approx([0, 30], abs=0.05)
        await world.sleep(6)
        assert len(away.moments) == 1
        assert away.moments[0] - 50 < REGISTER_RETRY_MAX_S + 0.01


@simulated
async def test_a_broker_whose_name_is_taken_is_reported_and_one_that_has_it_goes_on_when_another_comes(
    world: World,
) -> None:
    async with FakeNameServer(world, "ns1") as server:
        server.refusal = BrokerNameTaken("another one runs at twin:1")
        await start_broker(world, server)
        with pytest.raises(ConfigError, match="another one runs at twin:1"):
            await world.broker.topics.registration.wait_attempted()
        await world.stop_broker()
        server.refusal = None
        await start_broker(world, server)
        await world.broker.topics.registration.wait_attempted()
        server.refusal = BrokerNameTaken("another one runs at twin:1")
        await world.sleep(60)
        await world.broker.topics.registration.wait_attempted()
    [data_id] = {header["data_id"] for _, header, _ in server.registrations}
    assert data_id > 0


@simulated
async def test_a_name_server_that_refuses_is_asked_ever_more_rarely(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        server.refusal = StaleRegistration("a newer one is known")
        await start_broker(world, server)
        await world.sleep(60)
        waits_s = [later - sooner for sooner, later in itertools.pairwise(server.moments)]
        assert 0.025 < waits_s[0] < 0.1
        assert all(wait_s == pytest.approx(REGISTER_RETRY_MAX_S, abs=0.01) for wait_s in waits_s[8:])
        server.refusal = None
        await world.sleep(6)
        asked = len(server.moments)
        await world.sleep(20)
        assert len(server.moments) == asked


@simulated
async def test_topics_that_change_while_a_name_server_refuses_are_announced_by_the_next_attempt_and_make_none(
    world: World,
) -> None:
    async with FakeNameServer(world, "ns1") as server:
        server.refusal = StaleRegistration("a newer one is known")
        await start_broker(world, server)
        await world.sleep(60)
        asked, a = len(server.moments), world.peer("a")
        for number in range(10):
            await a.put_topic(f"new-{number}")
            await world.sleep(0.1)
        assert len(server.moments) - asked <= 1
        server.refusal = None
        await world.sleep(REGISTER_RETRY_MAX_S)
        _, _, topics = server.registrations[-1]
        assert {f"new-{number}" for number in range(10)} <= set(topics)


@simulated
async def test_a_lost_connection_is_recreated_and_registered_over_at_once(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server)
        await world.sleep(5)
        world.simulation.network.cut(HOST, "ns1")
        await world.sleep(SETTLED_S)
        assert server.moments == pytest.approx([0, 5], abs=0.05)


@simulated
async def test_a_broker_that_stops_says_goodbye_to_all(world: World) -> None:
    async with FakeNameServer(world, "ns1") as first, FakeNameServer(world, "ns2") as second:
        await start_broker(world, first, second)
        await world.sleep(1)
        await world.stop_broker()
        for server in (first, second):
            assert server.farewells == [{"broker_name": "broker-a", "broker_id": 0, "address": ADDRESS}]


@simulated
async def test_a_name_server_that_does_not_answer_holds_up_the_stop_for_a_second(world: World) -> None:
    async with FakeNameServer(world, "ns1") as hung, FakeNameServer(world, "ns2") as server:
        await start_broker(world, hung, server)
        await world.sleep(1)
        with world.simulation.network.stall("ns1"):
            before = world.now
            await world.stop_broker()
            assert world.now - before < 5
        assert len(server.farewells) == 1


@pytest.mark.parametrize(
    ("options", "announced"),
    [
        ({}, ADDRESS),
        ({"listen": "0.0.0.0:10911"}, ADDRESS),
        ({"listen": "0.0.0.0:10911", "advertise": "public.example:80"}, "public.example:80"),
    ],
)
@simulated
async def test_clients_are_notified_an_address_that_leads_to_the_broker(
    world: World, options: dict[str, Any], announced: str
) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server, **options)
        await world.sleep(SETTLED_S)
        assert server.registrations[0][1]["address"] == announced


@pytest.mark.parametrize(("options", "said"), [({"listen": "127.0.0.1:10911"}, 1), ({"listen": "0.0.0.0:10911"}, 0)])
@simulated
async def test_a_broker_that_clients_on_other_machines_cannot_reach_says_so_once(
    world: World, options: dict[str, Any], said: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeNameServer(world, "ns1") as server:
        await start_broker(world, server, **options)
        await world.peer("a").put_topic()
        await world.sleep(SETTLED_S)
        assert len(server.registrations) == 2
    texts = [record.getMessage() for record in caplog.records]
    assert len([text for text in texts if "use --listen 0.0.0.0:10911 or another address" in text]) == said


@simulated
async def test_the_version_grows_over_a_restart(world: World) -> None:
    async with FakeNameServer(world, "ns1") as server:
        for _ in range(2):
            await start_broker(world, server)
            await world.peer("a").put_topic(f"t{len(server.moments)}")
            await world.sleep(1)
            await world.stop_broker()
        assert server.versions == sorted(set(server.versions))
        assert len(server.versions) == 4
