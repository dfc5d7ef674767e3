from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import anyio
import pytest

from cli.demo.valves import Valves
from simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation

PORT = 9876


class Peer(asyncio.Protocol):
    """Remembers what came, and answers if it is the server's side."""

    def __init__(self, prefix: bytes = b"") -> None:
        self.received = b""
        self.lost = False
        self.transport = cast(asyncio.Transport, None)
        self._prefix = prefix

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self._prefix:
            self.transport.write(self._prefix + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class World:
    """A server, and clients of it with and without a name."""

    def __init__(self, simulation: Simulation, valves: Valves) -> None:
        self.valves = valves
        self.served: list[Peer] = []
        self._connected: list[Peer] = []
        self._loop = simulation.loop

    def _serve(self) -> Peer:
        self.served.append(Peer(b"re:"))
        return self.served[-1]

    async def listen(self) -> None:
        self._server = await self._loop.create_server(self._serve, "127.0.0.1", PORT)

    async def connect(self, client: str = "") -> Peer:
        with self.valves.named(client):
            return await self.connect_as_it_is()

    async def connect_as_it_is(self) -> Peer:
        _, peer = await self._loop.create_connection(Peer, "127.0.0.1", PORT)
        assert isinstance(peer, Peer)
        self._connected.append(peer)
        return peer

    async def close(self) -> None:
        self._server.close()
        for peer in self._connected:
            peer.transport.abort()
        await anyio.sleep(1)


def in_a_world(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        with Valves() as valves:
            world = World(simulation, valves)
            await world.listen()
            await scenario(world)
            await world.close()

    run_simulation(main)


def test_a_connection_with_a_valve_carries_bytes_both_ways_and_closes() -> None:
    async def scenario(world: World) -> None:
        peer = await world.connect("c1")
        peer.transport.write(b"hello")
        await anyio.sleep(1)
        assert peer.received == b"re:hello"
        assert peer.transport.get_extra_info("peername")[1] == PORT
        peer.transport.close()
        await anyio.sleep(1)
        assert peer.lost
        assert world.served[0].lost

    in_a_world(scenario)


def test_a_cut_breaks_the_connections_of_one_client_only_and_it_may_connect_again() -> None:
    async def scenario(world: World) -> None:
        first, second, other, unnamed = [await world.connect(name) for name in ("c1", "c1", "c2", "")]
        assert world.valves.cut("c1") == 2
        await anyio.sleep(1)
        assert [peer.lost for peer in (first, second, other, unnamed)] == [True, True, False, False]
        assert [peer.lost for peer in world.served] == [True, True, False, False]
        assert world.valves.cut("c1") == 0
        again = await world.connect("c1")
        assert not again.lost

    in_a_world(scenario)


def test_a_held_client_is_silent_and_deaf_with_its_connection_open_and_loses_nothing() -> None:
    async def scenario(world: World) -> None:
        peer, other = await world.connect("c1"), await world.connect("c2")
        await anyio.sleep(1)
        world.valves.hold("c1")
        world.valves.hold("c1")
        peer.transport.write(b"one ")
        peer.transport.write(b"two")
        world.served[0].transport.write(b"from the server ")
        other.transport.write(b"meanwhile")
        await anyio.sleep(60)
        assert (peer.received, world.served[0].received, peer.lost) == (b"", b"", False)
        assert other.received == b"re:meanwhile"
        world.valves.release("c1")
        world.valves.release("c1")
        await anyio.sleep(1)
        assert world.served[0].received == b"one two"
        assert peer.received == b"from the server re:one two"
        peer.transport.write(b"!")
        await anyio.sleep(1)
        assert world.served[0].received == b"one two!"

    in_a_world(scenario)


def test_a_held_client_makes_no_new_connection_until_it_is_released() -> None:
    async def scenario(world: World) -> None:
        world.valves.hold("c1")
        with anyio.move_on_after(10) as waited:
            await world.connect("c1")
        assert waited.cancelled_caught
        assert world.served == []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.connect, "c1")
            await anyio.sleep(5)
            world.valves.release("c1")
            await anyio.sleep(1)
        assert len(world.served) == 1

    in_a_world(scenario)


def test_a_connection_that_ends_while_it_is_held_is_forgotten() -> None:
    async def scenario(world: World) -> None:
        peer = await world.connect("c1")
        world.valves.hold("c1")
        peer.transport.write(b"never sent")
        peer.transport.abort()
        await anyio.sleep(1)
        world.valves.release("c1")
        assert peer.lost
        assert world.valves.cut("c1") == 0

    in_a_world(scenario)


def test_tasks_inherit_the_name_they_are_started_with() -> None:
    async def scenario(world: World) -> None:
        async with anyio.create_task_group() as tasks:

            async def reconnect() -> None:
                await anyio.sleep(1)
                await world.connect_as_it_is()

            with world.valves.named("c1"):
                tasks.start_soon(reconnect)
        assert world.valves.cut("c1") == 1

    in_a_world(scenario)


def test_afterwards_the_loop_is_as_it_was_and_nobody_is_held() -> None:
    async def main(simulation: Simulation) -> None:
        before = simulation.loop.create_connection
        with Valves() as valves:
            assert simulation.loop.create_connection != before
            world = World(simulation, valves)
            await world.listen()
            peer = await world.connect("c1")
            valves.hold("c1")
            peer.transport.write(b"held")
        assert simulation.loop.create_connection == before
        await anyio.sleep(1)
        assert world.served[0].received == b"held"
        await world.close()

    run_simulation(main)
