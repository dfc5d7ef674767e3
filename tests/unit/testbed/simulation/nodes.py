"""Hosts with echo servers on a simulated network, for the tests of the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.tcp.transport_conformance import Recorder

T = TypeVar("T")

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PORT = 9876
LATENCY_S = 0.125  # exact in binary, and so are sums of it


def simulate(main: Callable[[Simulation], Awaitable[T]]) -> T:
    return run_simulation(main, latency_s=LATENCY_S)


class Nodes:
    """Hosts with one echo server on each, and connections between them that are ended with it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.protocols: list[Recorder] = []
        self._servers: list[asyncio.Server] = []

    def _echo(self) -> Recorder:
        self.protocols.append(Recorder(echo=True))
        return self.protocols[-1]

    async def serve(self, *hosts: str) -> None:
        for host in hosts:
            self._servers.append(await self._simulation.loop.create_server(self._echo, host, PORT))

    async def connect(self, source: str, target: str) -> Recorder:
        with self._simulation.on_host(source):
            _, protocol = await self._simulation.loop.create_connection(Recorder, target, PORT)
        assert isinstance(protocol, Recorder)
        self.protocols.append(protocol)
        return protocol

    async def end(self) -> None:
        self._simulation.network.heal()
        for server in self._servers:
            server.close()
        await anyio.sleep(1)  # what is being accepted is accepted
        for protocol in self.protocols:
            await protocol.end()


@asynccontextmanager
async def nodes(simulation: Simulation, *hosts: str) -> AsyncGenerator[Nodes]:
    made = Nodes(simulation)
    await made.serve(*hosts)
    try:
        yield made
    finally:
        await made.end()


async def answers(client: Recorder, *, within_s: float) -> bool:
    """Whether an echo comes back in time."""
    expected = len(client.received) + 4
    client.transport.write(b"ping")
    with anyio.move_on_after(within_s):
        await client.until_received(expected)
        return True
    return False
