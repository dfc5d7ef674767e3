"""The simulated kernel's TCP: it passes the checks that real TCP passes, and its timing is exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.simulation.kernel.loop import VirtualLoop
from testbed.simulation.kernel.network import SimulatedNetwork
from testbed.simulation.kernel.run import Simulation, run_simulation
from testbed.simulation.kernel.sockets import SimulatedConnection, VirtualSocket
from tests.tcp.transport_conformance import CHECKS, Recorder, connected, serving


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("jitter_s", [0.0, 0.002])
def test_the_simulated_network_does_what_real_tcp_does(check: Callable[[], Awaitable[None]], jitter_s: float) -> None:
    async def main(_: Simulation) -> None:
        with anyio.fail_after(30):
            await check()

    run_simulation(main, jitter_s=jitter_s)


class Timed(Recorder):
    """Remembers when each delivery came, and how large it was."""

    def __init__(self) -> None:
        super().__init__()
        self.deliveries: list[tuple[float, int]] = []

    def data_received(self, data: bytes) -> None:
        self.deliveries.append((asyncio.get_running_loop().time(), len(data)))
        super().data_received(data)


@asynccontextmanager
async def timed(simulation: Simulation) -> AsyncGenerator[tuple[asyncio.Transport, Timed]]:
    """Yield a client's transport and the server's protocol, at 8.0 s, the connection being established."""
    accepted: list[Timed] = []

    def accept() -> Timed:
        accepted.append(Timed())
        return accepted[0]

    server = await simulation.loop.create_server(accept, "10.0.0.1", 9876)
    transport, client = await simulation.loop.create_connection(Recorder, "10.0.0.1", 9876)
    assert isinstance(client, Recorder)
    assert isinstance(transport, asyncio.Transport)
    await anyio.sleep_until(8.0)
    try:
        yield transport, accepted[0]
    finally:
        await client.end()
        await accepted[0].end()
        server.close()


def test_bytes_arrive_after_the_latency_and_not_before() -> None:
    async def main(simulation: Simulation) -> list[tuple[float, int]]:
        async with timed(simulation) as (client, server):
            client.write(b"now")
            await anyio.sleep(0.25)
            client.write(b"later")
            await server.until_received(8)
            return server.deliveries

    assert run_simulation(main, latency_s=0.125) == [(8.125, 3), (8.375, 5)]


def test_writes_of_one_instant_arrive_as_one_delivery() -> None:
    async def main(simulation: Simulation) -> list[tuple[float, int]]:
        async with timed(simulation) as (client, server):
            for _ in range(10):
                client.write(b"part")
            await server.until_received(40)
            return server.deliveries

    assert [size for _, size in run_simulation(main, latency_s=0.125, jitter_s=0.5)] == [40]


def test_what_the_window_does_not_hold_is_sent_when_the_reader_has_read() -> None:
    async def main(simulation: Simulation) -> list[tuple[float, int]]:
        async with timed(simulation) as (client, server):
            client.write(bytes(100 * 1024))
            assert client.get_write_buffer_size() == 36 * 1024
            await server.until_received(100 * 1024)
            return server.deliveries

    assert run_simulation(main, latency_s=0.125) == [(8.125, 64 * 1024), (8.25, 36 * 1024)]


def test_a_writer_is_paused_until_a_paused_reader_resumes_however_long_that_takes() -> None:
    async def main(simulation: Simulation) -> None:
        async with connected() as (client, server):
            server.transport.pause_reading()
            client.transport.write(bytes(200_000))
            assert client.happened == ["made", "pause"]
            await anyio.sleep(3_600)
            assert server.received == b""
            assert client.transport.get_write_buffer_size() == 200_000 - 64 * 1024
            assert simulation.network.statistics().bytes_sent == 64 * 1024
            server.transport.resume_reading()
            await server.until_received(200_000)
            assert client.happened == ["made", "pause", "resume"]

    run_simulation(main)


@given(
    writes=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 300)), min_size=1, max_size=30),
    reader_pauses=st.booleans(),
    window_bytes=st.integers(1, 500),
    seed=st.integers(0, 1_000),
)
def test_whatever_the_timing_the_bytes_arrive_in_order_and_never_early(
    writes: list[tuple[int, int]], reader_pauses: bool, window_bytes: int, seed: int
) -> None:
    latency_s, jitter_s = 0.001, 0.002
    sent = b"".join(bytes([number]) * size for number, (_, size) in enumerate(writes))

    async def main(simulation: Simulation) -> None:
        SimulatedNetwork(
            simulation.loop, Random(seed), latency_s=latency_s, jitter_s=jitter_s, window_bytes=window_bytes
        )
        written: list[tuple[float, int]] = []  # how much had been written when
        async with timed(simulation) as (client, server):
            for number, (pause_us, size) in enumerate(writes):
                await anyio.sleep(pause_us / 1e6)
                if reader_pauses:
                    (server.transport.pause_reading if number % 2 else server.transport.resume_reading)()
                client.write(bytes([number]) * size)
                written.append((simulation.loop.time(), size))
            server.transport.resume_reading()
            await server.until_received(len(sent))
            deliveries = server.deliveries
        assert server.received == sent
        delivered = 0
        for when_s, size in deliveries:
            delivered += size
            assert delivered <= sum(size for sent_s, size in written if sent_s + latency_s <= when_s + 1e-9)
            assert size <= window_bytes

    run_simulation(main)


def test_closing_with_unread_bytes_resets_the_other_end() -> None:
    async def main(_: Simulation) -> Exception | None:
        async with connected() as (client, server):
            server.transport.pause_reading()
            client.transport.write(b"never read")
            await anyio.sleep(1)
            server.transport.abort()
            await client.until_lost()
            return client.lost_with

    assert isinstance(run_simulation(main), ConnectionResetError)


def test_bytes_that_reach_a_closed_end_reset_their_sender() -> None:
    async def main(_: Simulation) -> list[str]:
        async with connected() as (client, server):
            client.keep_open = True
            server.transport.close()
            await client.until(lambda self: "eof" in self.happened)
            client.transport.write(b"anybody there?")
            await anyio.sleep(1)
            assert not client.transport.is_closing()  # nothing told it: it neither reads nor writes
            client.transport.write(b"anybody?")
            await client.until_lost()
            assert isinstance(client.lost_with, ConnectionResetError)
            return client.happened

    assert run_simulation(main) == ["made", "eof", "lost"]


def test_a_connection_that_no_one_accepted_is_reset_when_the_listener_closes() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving() as running:
            _, client = await simulation.loop.create_connection(Recorder, "127.0.0.1", running.port)
            assert isinstance(client, Recorder)
            running.server.close()  # the client is connected, and its last word of the handshake is on its way
            await client.until_lost()
            assert isinstance(client.lost_with, ConnectionResetError)
            assert running.accepted == []

    run_simulation(main)


def test_a_connection_in_the_queue_of_a_listener_is_reset_when_it_closes() -> None:
    async def main(simulation: Simulation) -> None:
        listener = simulation.network.bind("10.0.0.1", 9876)
        listener.listen(100)
        with pytest.raises(BlockingIOError):
            listener.accept()
        client = await simulation.network.connect("10.0.0.1", 9876)
        await anyio.sleep(1)
        assert listener.poll()
        listener.close()
        await anyio.sleep(1)
        with pytest.raises(ConnectionResetError):
            client.recv(100)
        client.close()
        assert simulation.network.connections() == ()

    run_simulation(main)


def test_connections_that_are_closed_leave_nothing_behind() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(echo=True) as running:
            for _ in range(10):
                client, server = await running.connect()
                client.transport.close()
                await client.until_lost()
                await server.until_lost()
            assert simulation.network.connections() == ()
            assert not simulation.network._link("127.0.0.1", "127.0.0.1").pipes
            assert len(simulation.network._ports) == 1
            assert len(simulation.loop.kernel._files) == 1

    run_simulation(main)


@pytest.fixture
def pair() -> tuple[VirtualSocket, VirtualSocket]:
    """Two sockets that are connected, on a network whose window is 8 bytes."""
    loop = VirtualLoop()
    network = SimulatedNetwork(loop, Random(0), latency_s=0.0, window_bytes=8)
    links = network._link("a", "b"), network._link("b", "a")
    connection = SimulatedConnection(network._wire, ("a", 1), ("b", 2), links, lambda _: None)
    loop.close()
    return connection.client_socket, connection.server_socket


def arrive(socket: VirtualSocket) -> None:
    socket.inbound._arrive()


def test_a_socket_says_would_block_as_a_kernel_does(pair: tuple[VirtualSocket, VirtualSocket]) -> None:
    here, there = pair
    with pytest.raises(BlockingIOError):
        there.recv(100)
    assert here.send(b"0123456789") == 8
    with pytest.raises(BlockingIOError):
        here.send(b"89")
    with pytest.raises(BlockingIOError):
        there.recv(100)
    arrive(there)
    assert there.recv(100) == b"01234567"
    assert here.send(memoryview(b"89")) == 2


def test_several_buffers_are_sent_as_one(pair: tuple[VirtualSocket, VirtualSocket]) -> None:
    here, there = pair
    assert here.sendmsg([b"ab", bytearray(b"cd"), memoryview(b"efghij")]) == 8
    arrive(there)
    assert there.recv(100) == b"abcdefgh"


def test_what_arrived_before_a_reset_or_an_end_is_read_first(pair: tuple[VirtualSocket, VirtualSocket]) -> None:
    here, there = pair
    here.send(b"last")
    here.close()
    here.close()
    arrive(there)
    assert there.recv(100) == b"last"
    assert there.recv(100) == b""
    there.break_()
    with pytest.raises(ConnectionResetError):
        there.recv(100)
    with pytest.raises(ConnectionResetError):
        there.send(b"x")


def test_a_closed_socket_has_no_descriptor(pair: tuple[VirtualSocket, VirtualSocket]) -> None:
    here, _ = pair
    assert here.fileno() == here.fd
    here.close()
    assert here.fileno() == -1
