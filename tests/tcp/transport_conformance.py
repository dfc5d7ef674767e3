"""What every TCP transport of asyncio does, as checks that run on whichever loop is running.

The simulated network runs them (tests/unit/testbed/simulation/kernel/test_sockets.py), and so does real loopback TCP
(tests/tcp/test_simulated_network_conformance.py): what one of them fails, the simulation gets wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import pytest

HOST = "127.0.0.1"
MORE_THAN_ANY_KERNEL_BUFFERS = 48 * 1024 * 1024


class Recorder(asyncio.Protocol):
    """A protocol that remembers what happened to it, and can be waited for."""

    transport: asyncio.Transport

    def __init__(self, *, echo: bool = False, keep_open: bool = False) -> None:
        self.echo, self.keep_open = echo, keep_open
        self.received = bytearray()
        self.happened: list[str] = []
        self.lost_with: Exception | None = None
        self._changed = anyio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.echo:
            self.transport.write(data)
        self._note("data")

    def eof_received(self) -> bool:
        self._note("eof")
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_with = exc
        self._note("lost")

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, what: str) -> None:
        if self.happened[-1:] != [what]:
            self.happened.append(what)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, condition: Callable[[Recorder], bool]) -> None:
        while not condition(self):
            await self._changed.wait()

    async def until_received(self, count: int) -> None:
        await self.until(lambda self: len(self.received) >= count)

    async def until_lost(self) -> None:
        await self.until(lambda self: "lost" in self.happened)

    async def end(self) -> None:
        if "lost" not in self.happened:  # after that, the abort of Python 3.11 fails on some ways of having been closed
            self.transport.abort()
            await self.until_lost()


class Server:
    """A listening server and the protocols of what it accepted."""

    def __init__(self, make: Callable[[], Recorder]) -> None:
        self._make = make
        self._changed = anyio.Event()
        self.accepted: list[Recorder] = []
        self.server: asyncio.Server

    def __call__(self) -> Recorder:
        self.accepted.append(self._make())
        self._changed.set()
        self._changed = anyio.Event()
        return self.accepted[-1]

    @property
    def port(self) -> int:
        port = self.server.sockets[0].getsockname()[1]
        assert isinstance(port, int)
        return port

    async def connect(self) -> tuple[Recorder, Recorder]:
        """Return the client's protocol and the server's."""
        known = len(self.accepted)
        _, client = await asyncio.get_running_loop().create_connection(Recorder, HOST, self.port)
        while len(self.accepted) == known:
            await self._changed.wait()
        server = self.accepted[known]
        await server.until(lambda self: "made" in self.happened)
        return client, server


@contextlib.asynccontextmanager
async def serving(*, echo: bool = False, keep_open: bool = False) -> AsyncGenerator[Server]:
    running = Server(lambda: Recorder(echo=echo, keep_open=keep_open))
    running.server = await asyncio.get_running_loop().create_server(running, HOST, 0)
    try:
        yield running
    finally:
        running.server.close()
        for accepted in running.accepted:
            await accepted.end()


@contextlib.asynccontextmanager
async def connected(*, echo: bool = False, keep_open: bool = False) -> AsyncGenerator[tuple[Recorder, Recorder]]:
    """Yield a connection's two protocols, the client's first; the options are the server's."""
    async with serving(echo=echo, keep_open=keep_open) as running:
        client, server = await running.connect()
        try:
            yield client, server
        finally:
            await client.end()


async def an_echo_returns_every_byte_in_order() -> None:
    async with connected(echo=True) as (client, _):
        sent = b"".join(f"<{number}>".encode() for number in range(5_000))
        for start in range(0, len(sent), 7):
            client.transport.write(sent[start : start + 7])
        await client.until_received(len(sent))
        assert client.received == sent


async def write_takes_any_buffer_and_writelines_joins_them() -> None:
    async with connected(echo=True) as (client, _):
        client.transport.write(bytearray(b"abc"))
        client.transport.write(memoryview(b"def"))
        client.transport.write(b"")
        client.transport.writelines([b"ghi", b"", b"jkl"])
        await client.until_received(12)
        assert client.received == b"abcdefghijkl"
        with pytest.raises(TypeError):
            client.transport.write("text")  # type: ignore[arg-type]


async def a_buffer_that_changes_after_write_was_sent_as_it_was() -> None:
    async with connected() as (client, server):
        buffer = bytearray(b"before")
        client.transport.write(buffer)
        buffer[:] = b"after!"
        await server.until_received(6)
        assert server.received == b"before"


async def each_end_knows_both_addresses() -> None:
    async with serving() as running:
        client, server = await running.connect()
        near, far = client.transport.get_extra_info("sockname"), client.transport.get_extra_info("peername")
        assert far == (HOST, running.port)
        assert near[0] == HOST
        assert near[1] not in (0, running.port)
        assert server.transport.get_extra_info("peername") == near
        assert server.transport.get_extra_info("sockname") == far
        assert client.transport.get_extra_info("cipher", "none") == "none"
        client.transport.close()
        await client.until_lost()


async def close_delivers_what_was_written_and_then_ends_both_sides_without_error() -> None:
    async with connected() as (client, server):
        client.transport.write(b"last words" * 100_000)
        client.transport.close()
        assert client.transport.is_closing()
        await server.until_lost()
        await client.until_lost()
        assert server.received == b"last words" * 100_000
        assert (client.lost_with, server.lost_with) == (None, None)
        assert server.happened == ["made", "data", "eof", "lost"]


async def close_twice_and_write_after_close_do_nothing() -> None:
    async with connected() as (client, server):
        client.transport.close()
        client.transport.close()
        client.transport.write(b"too late")
        await client.until_lost()
        await server.until_lost()
        assert server.received == b""
        assert client.happened == ["made", "lost"]


async def a_connection_is_not_lost_within_the_call_that_closes_it() -> None:
    async with connected() as (client, _):
        client.transport.close()
        assert "lost" not in client.happened
        await client.until_lost()


async def write_eof_ends_one_direction_only() -> None:
    async with connected(keep_open=True) as (client, server):
        assert client.transport.can_write_eof()
        client.transport.write(b"question")
        client.transport.write_eof()
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")
        await server.until(lambda self: "eof" in self.happened)
        server.transport.write(b"answer")
        await client.until_received(6)
        assert server.received == b"question"
        assert not server.transport.is_closing()
        server.transport.close()
        await client.until_lost()
        assert client.lost_with is None


async def a_protocol_that_does_not_keep_open_is_closed_by_the_end_of_the_stream() -> None:
    async with connected(keep_open=False) as (client, server):
        client.transport.write_eof()
        await server.until_lost()
        await client.until_lost()
        assert (client.lost_with, server.lost_with) == (None, None)


async def a_reader_that_pauses_stops_the_writer_and_gets_every_byte_later() -> None:
    async with connected() as (client, server):
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        client.transport.write(bytes(MORE_THAN_ANY_KERNEL_BUFFERS))
        await client.until(lambda self: "pause" in self.happened)
        low, high = client.transport.get_write_buffer_limits()
        assert client.transport.get_write_buffer_size() > high > low
        assert server.received == b""
        server.transport.resume_reading()
        assert server.transport.is_reading()
        await server.until_received(MORE_THAN_ANY_KERNEL_BUFFERS)
        await client.until(lambda self: "resume" in self.happened)
        assert client.transport.get_write_buffer_size() <= low
        assert client.happened == ["made", "pause", "resume"]


async def write_buffer_limits_are_the_ones_that_were_set() -> None:
    async with connected() as (client, _):
        client.transport.set_write_buffer_limits(high=1_000)
        assert client.transport.get_write_buffer_limits() == (250, 1_000)
        client.transport.set_write_buffer_limits(high=1_000, low=10)
        assert client.transport.get_write_buffer_limits() == (10, 1_000)


async def abort_is_no_error_here_and_the_end_there() -> None:
    async with connected() as (client, server):
        client.transport.abort()
        assert client.transport.is_closing()
        await client.until_lost()
        await server.until_lost()
        assert client.lost_with is None
        assert server.lost_with is None


async def abort_ends_a_connection_whose_peer_does_not_read() -> None:
    async with connected() as (client, server):
        server.transport.pause_reading()
        client.transport.write(bytes(MORE_THAN_ANY_KERNEL_BUFFERS))
        client.transport.close()
        with anyio.move_on_after(0.05) as waited:
            await client.until_lost()
        assert waited.cancelled_caught, "close waits for the bytes"
        client.transport.abort()
        await client.until_lost()
        assert client.lost_with is None


async def writing_to_a_peer_that_is_gone_fails_the_connection() -> None:
    async with connected() as (client, server):
        client.keep_open = True
        server.transport.abort()
        await client.until(lambda self: "eof" in self.happened)
        while "lost" not in client.happened:
            client.transport.write(b"anybody there?")
            await anyio.sleep(0.001)
        assert isinstance(client.lost_with, ConnectionResetError | BrokenPipeError)


async def no_listener_is_a_refused_connection() -> None:
    async with serving() as running:
        port = running.port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.get_running_loop().create_connection(Recorder, HOST, port)


async def a_closed_server_refuses_new_connections_and_keeps_those_it_has() -> None:
    async with serving(echo=True) as running:
        client, _ = await running.connect()
        port = running.port
        running.server.close()
        assert not running.server.is_serving()
        assert running.server.sockets == ()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.get_running_loop().create_connection(Recorder, HOST, port)
        client.transport.write(b"still here")
        await client.until_received(10)
        client.transport.close()
        await client.until_lost()
        await running.accepted[0].until_lost()
        await running.server.wait_closed()


async def a_port_is_taken_once_and_free_after_close() -> None:
    loop = asyncio.get_running_loop()
    async with serving() as running:
        port = running.port
        with pytest.raises(OSError, match="address already in use") as caught:
            await loop.create_server(Recorder, HOST, port)
        assert caught.value.errno == errno.EADDRINUSE
    again = await loop.create_server(Recorder, HOST, port)
    again.close()


async def one_server_takes_many_connections_at_once() -> None:
    async with serving(echo=True) as running, anyio.create_task_group() as group:

        async def one(text: bytes) -> None:
            _, client = await asyncio.get_running_loop().create_connection(Recorder, HOST, running.port)
            client.transport.write(text)
            await client.until_received(len(text))
            assert client.received == text
            client.transport.close()
            await client.until_lost()

        for number in range(50):
            group.start_soon(one, f"client {number}".encode())


async def streams_work() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, HOST, 0)
    reader, writer = await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1])
    writer.write(b"loud\n")
    assert await reader.read() == b"LOUD\n"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


CHECKS: list[Callable[[], Awaitable[None]]] = [
    an_echo_returns_every_byte_in_order,
    write_takes_any_buffer_and_writelines_joins_them,
    a_buffer_that_changes_after_write_was_sent_as_it_was,
    each_end_knows_both_addresses,
    close_delivers_what_was_written_and_then_ends_both_sides_without_error,
    close_twice_and_write_after_close_do_nothing,
    a_connection_is_not_lost_within_the_call_that_closes_it,
    write_eof_ends_one_direction_only,
    a_protocol_that_does_not_keep_open_is_closed_by_the_end_of_the_stream,
    a_reader_that_pauses_stops_the_writer_and_gets_every_byte_later,
    write_buffer_limits_are_the_ones_that_were_set,
    abort_is_no_error_here_and_the_end_there,
    abort_ends_a_connection_whose_peer_does_not_read,
    writing_to_a_peer_that_is_gone_fails_the_connection,
    no_listener_is_a_refused_connection,
    a_closed_server_refuses_new_connections_and_keeps_those_it_has,
    a_port_is_taken_once_and_free_after_close,
    one_server_takes_many_connections_at_once,
    streams_work,
]
