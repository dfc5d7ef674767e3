"""Hosts, ports and round trips of the simulated network. Its faults: test_network_faults.py."""

from __future__ import annotations

import asyncio
from random import Random

import anyio
import pytest

from testbed.simulation.kernel.loop import VirtualLoop
from testbed.simulation.kernel.network import FIRST_PORT, LAST_PORT, SimulatedNetwork
from testbed.simulation.kernel.run import Simulation
from tests.tcp.transport_conformance import Recorder
from tests.unit.testbed.simulation.nodes import LATENCY_S, PORT, A, B, C, answers, nodes, simulate


def test_connecting_takes_one_round_trip_and_an_echo_another() -> None:
    async def main(simulation: Simulation) -> list[float]:
        times = [simulation.loop.time()]
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            times.append(simulation.loop.time())
            client.transport.write(b"ping")
            await client.until_received(4)
            times.append(simulation.loop.time())
        return times

    assert simulate(main) == [0.0, 2 * LATENCY_S, 4 * LATENCY_S]


def test_a_refusal_takes_one_round_trip_and_names_the_address() -> None:
    async def main(simulation: Simulation) -> float:
        with pytest.raises(ConnectionRefusedError, match=r"10\.0\.0\.1.*9876"):
            await simulation.loop.create_connection(Recorder, A, PORT)
        return simulation.loop.time()

    assert simulate(main) == 2 * LATENCY_S


def test_a_server_that_does_not_serve_yet_refuses() -> None:
    async def main(simulation: Simulation) -> None:
        server = await simulation.loop.create_server(Recorder, A, PORT, start_serving=False)
        with pytest.raises(ConnectionRefusedError):
            await simulation.loop.create_connection(Recorder, A, PORT)
        await server.start_serving()
        transport, protocol = await simulation.loop.create_connection(Recorder, A, PORT)
        transport.close()
        assert isinstance(protocol, Recorder)
        await protocol.until_lost()
        server.close()
        await server.wait_closed()

    simulate(main)


def test_the_host_of_a_connection_is_that_of_the_task_that_makes_it() -> None:
    async def main(simulation: Simulation) -> list[str]:
        seen: list[str] = []

        async def connect() -> None:
            _, protocol = await simulation.loop.create_connection(Recorder, A, PORT)
            assert isinstance(protocol, Recorder)
            seen.append(protocol.transport.get_extra_info("sockname")[0])
            await protocol.end()

        async with nodes(simulation, A), anyio.create_task_group() as group:
            with simulation.on_host(B):
                group.start_soon(connect)
            with simulation.on_host(C):
                group.start_soon(connect)
            group.start_soon(connect)
        return seen

    assert simulate(main) == [B, C, "127.0.0.1"]


def test_what_a_server_connects_for_a_client_comes_from_the_servers_host() -> None:
    async def main(simulation: Simulation) -> str:
        seen: asyncio.Future[str] = simulation.loop.create_future()

        class Relay(Recorder):
            def data_received(self, data: bytes) -> None:
                here = simulation.network.bind(None, 0)
                seen.set_result(here.getsockname()[0])
                here.close()

        with simulation.on_host(C):  # another than the one that the server binds
            server = await simulation.loop.create_server(Relay, A, PORT)
        with simulation.on_host(B):
            _, client = await simulation.loop.create_connection(Recorder, A, PORT)
        assert isinstance(client, Recorder)
        client.transport.write(b"go on")
        host = await seen
        client.transport.close()
        await client.until_lost()
        await anyio.sleep(1)
        server.close()
        return host

    assert simulate(main) == A


@pytest.mark.parametrize("bound", ["0.0.0.0", "127.0.0.1", "localhost", "", None])
def test_wildcard_and_loopback_mean_the_host_one_is_on(bound: str | None) -> None:
    async def main(simulation: Simulation) -> None:
        with simulation.on_host(A):
            server = await simulation.loop.create_server(Recorder, bound, PORT)
            assert server.sockets[0].getsockname() == (A, PORT)
        with pytest.raises(ConnectionRefusedError), simulation.on_host(B):
            await simulation.loop.create_connection(Recorder, bound or "localhost", PORT)
        server.close()

    simulate(main)


def test_ports_are_the_same_in_every_run_and_different_within_one() -> None:
    async def main(simulation: Simulation) -> list[int]:
        servers = [await simulation.loop.create_server(Recorder, A, 0) for _ in range(3)]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        for server in servers:
            server.close()
        return ports

    assert simulate(main) == simulate(main) == [FIRST_PORT, FIRST_PORT + 1, FIRST_PORT + 2]


def test_ports_are_used_again_in_turn_and_a_host_can_run_out_of_them() -> None:
    network = SimulatedNetwork(VirtualLoop(), Random(0))
    listeners = [network.bind(A, 0) for _ in range(FIRST_PORT, LAST_PORT + 1)]
    with pytest.raises(OSError, match="no free port"):
        network.bind(A, 0)
    listeners[5].close()
    assert network.bind(A, 0).getsockname() == (A, FIRST_PORT + 5)
    assert network.bind(B, 0).getsockname() == (B, FIRST_PORT)
    network._loop.close()


def test_a_cancelled_attempt_leaves_nothing_on_either_side() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            for within_s in (0.5 * LATENCY_S, 1.5 * LATENCY_S):
                with anyio.move_on_after(within_s):
                    await node.connect(B, A)
            await anyio.sleep(10)
            assert node.protocols == []
            assert simulation.network.connections() == ()
            assert len(simulation.network._ports) == 1

    simulate(main)


def test_statistics_are_a_snapshot() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            before = simulation.network.statistics()
            assert await answers(client, within_s=1)
            after = simulation.network.statistics()
            with pytest.raises(ConnectionRefusedError):
                await node.connect(B, C)
        assert (before.bytes_sent, before.bytes_delivered, before.deliveries) == (0, 0, 0)
        assert (after.bytes_sent, after.bytes_delivered, after.deliveries) == (8, 8, 2)
        assert (after.connections_opened, after.connections_open) == (1, 1)
        last = simulation.network.statistics()
        assert (last.connections_opened, last.connections_open, last.connections_refused) == (1, 0, 1)

    simulate(main)


@pytest.mark.parametrize(
    "options", [{"latency_s": -1.0}, {"jitter_s": -1.0}, {"window_bytes": 0}, {"window_bytes": 256 * 1024 + 1}]
)
def test_a_network_that_cannot_be_is_not_made(options: dict[str, float]) -> None:
    loop = VirtualLoop()
    with pytest.raises(ValueError, match=next(iter(options))):
        SimulatedNetwork(loop, Random(0), **options)  # type: ignore[arg-type]
    loop.close()
