"""Servers and clients on real loopback sockets: what kernels do that a simulation might not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
import uvloop
from anyio.lowlevel import checkpoint

from model.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    InvalidParameter,
    RequestCodeNotSupported,
    RequestTimeout,
)
from model.limits import MAX_FRAME_BYTES, MAX_UNSENT_BYTES, UNACKNOWLEDGED_S
from remoting.client import RemotingClient, raise_for_code
from remoting.codec import CODEC
from remoting.command import REQUEST, RESPONSE, Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer, serve

pytestmark = pytest.mark.tcp

STATE, ROUTE, HOLD = RequestCode.GET_SERVER_STATE, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_GROUP_LIST
PATIENCE_S = 20.0
"""How long anything here may take before the test fails; nothing needs a tenth of it."""


class Service:
    def __init__(self) -> None:
        self.release = anyio.Event()
        self.served = 0
        self.held: list[tuple[Connection, Command]] = []

    def state(self, connection: Connection, request: Command) -> Reply:
        self.served += 1
        return Reply({"kind": "echo"}, request.body)

    async def slow(self, connection: Connection, request: Command) -> Reply:
        await self.release.wait()
        return Reply({"done": True})

    def hold(self, connection: Connection, request: Command) -> None:
        self.held.append((connection, request))


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Service, RemotingServer, RemotingClient]]:
    service = Service()
    handlers: dict[RequestCode, Handler] = {STATE: service.state, ROUTE: service.slow, HOLD: service.hold}
    async with serve(handlers, "127.0.0.1:0") as server, RemotingClient() as client:
        yield service, server, client


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Runs a test's coroutine on either loop that is supported."""

    def run_on_loop(main: Callable[[], Awaitable[None]]) -> None:
        async def in_time() -> None:
            with anyio.fail_after(PATIENCE_S):
                await main()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(in_time())

    return run_on_loop


Run = Callable[[Callable[[], Awaitable[None]]], None]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds; `PATIENCE_S` ends a wait for what never comes."""
    while not condition():
        await checkpoint()


def host_and_port(server: RemotingServer) -> tuple[str, int]:
    host, _, port = server.address.rpartition(":")
    return host, int(port)


def test_both_ends_of_an_idle_connection_are_watched_by_the_system(run: Run) -> None:
    unacknowledged = getattr(socket, "TCP_USER_TIMEOUT", None)

    async def main() -> None:
        async with running() as (_, server, client):
            ends = [await client.connect(server.address)]
            await client.request(server.address, STATE)
            ends += server.connections
            for end in ends:
                assert end._transport is not None
                sock = end._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                if unacknowledged is not None:  # clients only: a reader that is slow on purpose is no vanished peer
                    timeout_ms = UNACKNOWLEDGED_S * 1000 if end is ends[0] else 0
                    assert sock.getsockopt(socket.IPPROTO_TCP, unacknowledged) == timeout_ms
            assert len(ends) == 2

    run(main)


@pytest.mark.parametrize(
    ("garbage", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "not frames of this protocol"),
        ((MAX_FRAME_BYTES + 1).to_bytes(4, "big"), "a frame of 16777217 bytes was announced"),
        (b"\x00\x00\x00\x01\xc1", "must be the msgpack array"),
    ],
    ids=["http", "oversized", "not-msgpack"],
)
def test_garbage_gets_one_error_frame_and_the_end_while_another_client_goes_on(
    run: Run, garbage: bytes, why: str
) -> None:
    async def main() -> None:
        async with running() as (_, server, client):
            await client.request(server.address, STATE)
            reader, writer = await asyncio.open_connection(*host_and_port(server))
            writer.write(garbage)
            [error] = CODEC.decoder().feed(await reader.read())  # up to the end: one frame, then closed
            writer.close()
            assert (error.flags, error.code, error.opaque) == (RESPONSE, 90_001, 0)
            assert why in error.header["remark"]
            await client.request(server.address, STATE)
            assert len(server.connections) == 1

    run(main)


def test_bad_requests_are_refused_and_the_connection_goes_on(run: Run) -> None:
    async def main() -> None:
        async with running() as (_, server, client):
            with pytest.raises(RequestCodeNotSupported, match="request code 4711"):
                await client.request(server.address, 4711)
            with pytest.raises(InvalidParameter, match="field 'topic' must be of type str, got nothing"):
                await client.request(server.address, ROUTE)
            assert (await client.request(server.address, STATE, body=b"x" * 1_000_000)).body == b"x" * 1_000_000
            assert len(server.connections) == 1

    run(main)


def test_a_held_request_does_not_block_those_behind_it(run: Run) -> None:
    async def main() -> None:
        async with running() as (service, server, client):
            connection = await client.connect(server.address)
            held = connection.request(HOLD, timeout_s=PATIENCE_S)
            await asyncio.gather(*(client.request(server.address, STATE) for _ in range(1_000)))
            assert not held.done()
            [(server_side, request)] = service.held
            server_side.respond(request, {}, b"at last")
            assert (await held).body == b"at last"

    run(main)


def test_a_client_that_stops_reading_is_paused_then_cut_off_and_others_go_on(run: Run) -> None:
    async def main() -> None:
        async with running() as (service, server, client):
            await client.request(server.address, STATE)
            reader, writer = await asyncio.open_connection(*host_and_port(server), limit=1)
            body = b"x" * (1024 * 1024)
            for opaque in range(1, 1 + 64):
                writer.write(CODEC.encode(REQUEST, STATE, opaque, {}, body))
            await until(lambda: len(server.connections) == 2 and not server.connections[1].ready)
            deaf = server.connections[1]
            # The server stopped reading from it: some of its 64 requests stay unread however long we wait.
            served = service.served
            for _ in range(100):
                await client.request(server.address, STATE)
            assert service.served == served + 100
            assert served < 1 + 64
            # What is owed to it anyway still goes out, until that is too much.
            due = Command(REQUEST, HOLD, 999, {}, None)
            for _ in range(2 * MAX_UNSENT_BYTES // len(body)):
                deaf.unanswered += 1
                deaf.respond(due, {}, body)
                await client.request(server.address, STATE)
            await until(lambda: len(server.connections) == 1)
            assert deaf.closed
            writer.transport.abort()
            del reader

    run(main)


def test_stop_finishes_what_runs_refuses_new_work_and_frees_the_port(run: Run) -> None:
    async def main() -> None:
        async with running() as (service, server, client):
            connection = await client.connect(server.address)
            slow = connection.request(ROUTE, {"topic": "t"}, timeout_s=PATIENCE_S)
            await client.request(server.address, STATE)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.stop, PATIENCE_S)
                refused = connection.request(STATE)
                assert (await refused).code == 14
                service.release.set()
                assert raise_for_code(await slow).header == {"done": True}
            assert server.connections == ()
        async with serve({}, server.address):
            pass

    run(main)


def test_a_port_in_use_is_a_config_error_that_says_what_to_do(run: Run) -> None:
    async def main() -> None:
        async with running() as (_, server, _):
            with pytest.raises(ConfigError, match=f"cannot listen on {server.address} .*Choose another one"):
                async with serve({}, server.address):
                    pass

    run(main)


def test_no_one_there_is_a_definite_failure(run: Run) -> None:
    async def main() -> None:
        async with serve({}, "127.0.0.1:0") as server:
            address = server.address
        async with RemotingClient() as client:
            with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: .*is it running") as caught:
                await client.request(address, STATE)
            assert caught.value.definite

    run(main)


def test_no_answer_and_a_lost_connection_leave_the_effect_open(run: Run) -> None:
    lost: list[str] = []

    async def main() -> None:
        async with running() as (service, server, _), RemotingClient(on_lost=lost.append) as client:
            with pytest.raises(RequestTimeout) as timeout:
                await client.request(server.address, HOLD, timeout_s=0.01)
            connection = await client.connect(server.address)
            held = connection.request(HOLD, timeout_s=PATIENCE_S)
            await until(lambda: len(service.held) == 2)
            server.connections[0].abort()
            with pytest.raises(ConnectionLost) as loss:
                await held
            assert not timeout.value.definite
            assert not loss.value.definite
            assert lost == [server.address]
            await client.request(server.address, STATE)

    run(main)


def test_concurrent_callers_share_one_dial_and_a_cancelled_one_leaves_no_connection_behind(run: Run) -> None:
    async def main() -> None:
        async with running() as (_, server, client):
            await asyncio.gather(*(client.request(server.address, STATE) for _ in range(50)))
            assert len(server.connections) == 1
            async with RemotingClient() as other:
                with anyio.move_on_after(0):
                    await other.connect(server.address)
                assert other.connected(server.address) is None
                await other.request(server.address, STATE)
                await until(lambda: len(server.connections) == 2)

    run(main)
