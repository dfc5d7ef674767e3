from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from random import Random

import anyio
import msgpack
import pytest

from client.config import ServerDialect
from client.instance.name_servers import NameServers
from model.errors import ConfigError, ConnectFailed, InvalidParameter, ServiceNotAvailable, TopicNotExist
from model.topic_route import TopicRoute
from remoting.client import RemotingClient
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import serve
from rocketmq.dialects import name_server_dialect
from rocketmq.frame import RESPONSE_BIT, Frame, FrameDecoder, encode_frame
from testbed.simulation.kernel.run import Simulation, run_simulation

ADDRESSES = ("n1:9876", "n2:9876", "n3:9876")
TIMEOUT_S = 3.0
STATE, ROUTE = RequestCode.GET_SERVER_STATE, RequestCode.GET_ROUTEINFO_BY_TOPIC


class World:
    """Fake name servers; those in `down` do not listen, and `starting` ones say so."""

    def __init__(self, *, down: tuple[str, ...] = (), starting: tuple[str, ...] = (), kind: str = "namesrv") -> None:
        self.down, self.starting, self.kind = down, starting, kind
        self.asked: list[str] = []
        self.version: int | None = None  # of the table; one of an earlier commit says none
        self.remoting = RemotingClient(rng=Random(1))

    def servers(self, *, first: int = 0) -> NameServers:
        """A client of them that asks this one first."""
        seed = next(seed for seed in count() if Random(seed).randrange(len(ADDRESSES)) == first)
        return NameServers(self.remoting, ADDRESSES, Random(seed), TIMEOUT_S)

    def run(self, scenario: Callable[[Simulation], Awaitable[None]]) -> None:
        """Run a scenario among them."""

        async def main(simulation: Simulation) -> None:
            async with AsyncExitStack() as stack:
                for address in ADDRESSES:
                    if address not in self.down:
                        await stack.enter_async_context(serve(self._handlers(address), address))
                await stack.enter_async_context(self.remoting)
                await scenario(simulation)

        run_simulation(main)

    def _handlers(self, address: str) -> dict[RequestCode, Callable[[Connection, Command], Reply]]:
        def note() -> None:
            self.asked.append(address)
            if address in self.starting:
                raise ServiceNotAvailable("starting")

        def state(connection: Connection, request: Command) -> Reply:
            note()
            return Reply({"kind": self.kind, "name": address})

        def route(connection: Connection, request: Command) -> Reply:
            note()
            if request.header["topic"] == "nobody":
                raise TopicNotExist("nobody serves it")
            if request.header["topic"] == "odd":
                raise InvalidParameter("odd")
            if self.version is not None and request.header.get("known_version") == self.version:
                return Reply({"version": self.version, "unchanged": True})
            header = {} if self.version is None else {"version": self.version}
            return Reply(header, msgpack.packb(TopicRoute(topic="t", queues=(), brokers=()).to_wire()))

        return {STATE: state, ROUTE: route}


def test_many_clients_spread_over_the_name_servers_and_each_stays_with_its_own() -> None:
    world = World()

    async def scenario(simulation: Simulation) -> None:
        for seed in range(30):
            servers = NameServers(world.remoting, ADDRESSES, Random(seed), TIMEOUT_S)
            world.asked.clear()
            for _ in range(3):
                await servers.request(STATE)
            assert len(set(world.asked)) == 1
            first.add(world.asked[0])

    first: set[str] = set()
    world.run(scenario)
    assert first == set(ADDRESSES)


@pytest.mark.parametrize("how", ["down", "starting", "hung"])
def test_when_one_fails_the_next_is_asked_and_stays_the_one(how: str) -> None:
    world = World(down=("n3:9876",) if how == "down" else (), starting=("n3:9876",) if how == "starting" else ())

    async def scenario(simulation: Simulation) -> None:
        if how == "hung":
            simulation.network.stall("n3")
        servers = world.servers(first=2)
        await servers.request(STATE)
        world.asked.clear()
        await servers.request(STATE)
        assert world.asked == ["n1:9876"], "the one after the last is the first"
        assert simulation.loop.time() < TIMEOUT_S + 0.1, "a hung one costs its timeout once"

    world.run(scenario)


def test_when_none_answers_the_error_names_each_with_its_reason() -> None:
    world = World(down=("n1:9876", "n3:9876"), starting=("n2:9876",))

    async def scenario(simulation: Simulation) -> None:
        with pytest.raises(ConnectFailed, match=r"no name server answers: n2:9876: starting; n3:9876: .*; n1:9876: "):
            await world.servers(first=1).request(STATE)

    world.run(scenario)


def test_a_refusal_is_an_answer_and_no_one_else_is_asked() -> None:
    world = World(starting=("n1:9876",))

    async def scenario(simulation: Simulation) -> None:
        servers = world.servers()
        for _ in range(2):
            with pytest.raises(InvalidParameter, match="odd"):
                await servers.request(ROUTE, {"topic": "odd"})
        assert world.asked == ["n1:9876", "n2:9876", "n2:9876"], "who refused stays the one that is asked"

    world.run(scenario)


def test_requests_that_fail_at_the_same_time_do_not_step_over_the_one_that_is_up() -> None:
    world = World(down=("n3:9876",))

    async def scenario(simulation: Simulation) -> None:
        servers = world.servers()
        await servers.request(STATE)
        simulation.network.stall("n1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(servers.request, STATE)
            await anyio.sleep(1)
            tasks.start_soon(servers.request, STATE)  # still waits for the first one when that has found the second
        assert world.asked == ["n1:9876", "n2:9876", "n2:9876"]

    world.run(scenario)


def test_a_topic_that_no_one_serves_is_distinguished_from_a_failure() -> None:
    world = World()

    async def scenario(simulation: Simulation) -> None:
        servers = world.servers()
        assert await servers.route("t") == TopicRoute(topic="t", queues=(), brokers=())
        assert await servers.route("nobody") is None
        for host in ("n1", "n2", "n3"):
            simulation.network.stall(host)
        with pytest.raises(ConnectFailed, match="no name server answers"):
            await servers.route("nobody")

    world.run(scenario)


def test_one_request_finds_out_that_no_route_has_changed_since_the_last_poll() -> None:
    world = World()

    async def scenario(simulation: Simulation) -> None:
        servers = world.servers()

        async def poll() -> None:
            servers.begin_poll()
            await servers.route("t")
            await servers.route("other")

        await poll()
        world.asked.clear()
        assert await servers.any_changed("t")
        assert not world.asked, "a name server of an earlier commit is not asked in vain"
        world.version = 7
        await poll()
        world.asked.clear()
        assert not await servers.any_changed("t")
        assert len(world.asked) == 1
        world.version = 8
        assert await servers.any_changed("t")
        await poll()
        assert not await servers.any_changed("t")
        assert await servers.any_changed("nobody"), "a topic that is gone"
        simulation.network.cut("n1")
        await anyio.sleep(1)
        assert await servers.any_changed("t"), "it may be another run of the name server"
        await servers.route("t")
        assert await servers.any_changed("t"), "routes of one poll and of another connection do not add up"

    world.run(scenario)


def test_what_changes_in_the_middle_of_a_poll_counts_as_changed() -> None:
    world = World()

    async def scenario(simulation: Simulation) -> None:
        servers = world.servers()
        servers.begin_poll()
        for version in (7, 8):
            world.version = version
            await servers.route("t")
        assert await servers.any_changed("t")

    world.run(scenario)


def test_our_address_is_the_one_that_a_name_server_sees() -> None:
    world = World(down=("n1:9876",))

    async def scenario(simulation: Simulation) -> None:
        with simulation.on_host("10.0.0.7"):
            assert await world.servers().connect_and_get_own_address() == "10.0.0.7"

    world.run(scenario)


def test_the_address_of_a_broker_is_refused_as_that_of_a_name_server() -> None:
    world = World(kind="broker")

    async def scenario(simulation: Simulation) -> None:
        with pytest.raises(ConfigError, match="n2:9876 is broker 'n2:9876', not a name server"):
            await world.servers(first=1).connect_and_get_own_address()

    world.run(scenario)


class OnlyRocketmq(asyncio.Protocol):
    """A name server that closes a connection whose first frame is not RocketMQ's, and else knows the cluster."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._frames = FrameDecoder()

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        for frame in self._frames.feed(data):
            self.transport.write(encode_frame(Frame(0, RESPONSE_BIT, frame.opaque, {})))
        if self._frames.error is not None:
            self.transport.close()


class HangsUp(asyncio.BaseProtocol):
    """A name server that is killed whenever it is asked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@pytest.mark.parametrize("wanted", [ServerDialect.AUTO, ServerDialect.ROCKETMQ])
def test_servers_that_hang_up_on_our_protocol_are_asked_in_rocketmqs(wanted: ServerDialect) -> None:
    async def main(simulation: Simulation) -> None:
        server = await asyncio.get_running_loop().create_server(OnlyRocketmq, "n1", 9876)
        async with RemotingClient(rng=Random(1), codec_of=wanted.codec_of()) as remoting:
            servers = NameServers(remoting, ADDRESSES[:1], Random(1), TIMEOUT_S)
            found, host = await servers.find_dialect(wanted)
            assert (found, bool(host)) == (ServerDialect.ROCKETMQ, True)
        server.close()
        await anyio.sleep(1)  # until it has seen that its connections are closed

    run_simulation(main)


def test_a_server_of_ours_that_hangs_up_while_another_starts_is_not_taken_for_rocketmqs() -> None:
    world = World(down=ADDRESSES)
    asked: list[int] = []

    def answer(connection: Connection, request: Command) -> Reply:
        asked.append(request.code)
        if len(asked) == 1:
            raise ServiceNotAvailable("starting")
        return Reply({"kind": "namesrv", "name": "n2"}, msgpack.packb([]))

    async def scenario(simulation: Simulation) -> None:
        handlers = dict.fromkeys((STATE, RequestCode.GET_BROKER_CLUSTER_INFO), answer)
        killed = await asyncio.get_running_loop().create_server(HangsUp, "n1", 9876)
        async with killed, serve(handlers, "n2:9876", dialects=[name_server_dialect()]):
            assert (await world.servers().find_dialect(ServerDialect.AUTO))[0] is ServerDialect.RLAB
            assert asked == [STATE, RequestCode.GET_BROKER_CLUSTER_INFO, STATE], "ours, then RocketMQ's, then ours"

    world.run(scenario)


@pytest.mark.parametrize("down", [(), ADDRESSES])
def test_servers_of_ours_and_those_that_are_away_are_not_asked_in_another_protocol(down: tuple[str, ...]) -> None:
    world = World(down=down)

    async def scenario(simulation: Simulation) -> None:
        servers = world.servers()
        if down:
            with pytest.raises(ConnectFailed, match="cannot connect"):
                await servers.find_dialect(ServerDialect.AUTO)
        else:
            assert (await servers.find_dialect(ServerDialect.AUTO))[0] is ServerDialect.RLAB

    world.run(scenario)
