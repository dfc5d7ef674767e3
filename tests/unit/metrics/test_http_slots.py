"""HTTP ports have places and deadlines, whoever connects and whatever does not come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import anyio
import pytest
from aiohttp import web

from metrics.http import json_body, serve_http
from model.limits import (
    FIRST_REQUEST_S,
    FRAME_TIMEOUT_S,
    HTTP_IDLE_S,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OF_ADDRESS,
    MAX_HTTP_CONNECTIONS,
)
from testbed.simulation.kernel.run import Simulation, run_simulation

SERVER, PORT = "10.0.0.1", 9101
OF_ADDRESS = MAX_HTTP_CONNECTIONS * MAX_CONNECTIONS_OF_ADDRESS // MAX_CONNECTIONS
GET = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n"

pytestmark = pytest.mark.simulation


class Peer(asyncio.Protocol):
    """One end of a connection that keeps what comes, and when it was closed."""

    def __init__(self) -> None:
        self.got = b""
        self.closed_at: float | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed_at = asyncio.get_running_loop().time()

    @property
    def status(self) -> str:
        return self.got[:12].decode()


Connect = Callable[..., Awaitable[Peer]]


def served(scenario: Callable[[Connect], Awaitable[None]], caplog: pytest.LogCaptureFixture) -> None:
    """Run a scenario beside an HTTP port, in virtual time."""

    async def small(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def large(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 20_000_000)

    async def read(request: web.Request) -> web.Response:
        return web.json_response(await json_body(request))

    async def main(simulation: Simulation) -> None:
        peers: list[Peer] = []

        async def connect(host: str = "10.0.0.2", data: bytes = b"") -> Peer:
            peer = Peer()
            with simulation.on_host(host):
                await simulation.loop.create_connection(lambda: peer, SERVER, PORT)
            peer.transport.write(data)
            peers.append(peer)
            return peer

        app = web.Application()
        app.add_routes([web.get("/small", small), web.get("/large", large), web.post("/json", read)])
        with simulation.on_host(SERVER):
            async with serve_http(app, f"{SERVER}:{PORT}", "serve"):
                await scenario(connect)
                for peer in peers:
                    peer.transport.abort()
                await anyio.sleep(0.1)

    with caplog.at_level(logging.INFO):
        run_simulation(main)


def test_one_address_has_its_share_of_an_http_port_and_the_next_is_refused_while_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(connect: Connect) -> None:
        silent = [await connect() for _ in range(OF_ADDRESS)]
        refused, other = await connect(data=GET), await connect("10.0.0.3", GET)
        await anyio.sleep(0.1)
        assert refused.status == "HTTP/1.1 503"
        assert b"your address already has its maximum" in refused.got
        assert refused.closed_at is not None
        assert (other.status, other.closed_at) == ("HTTP/1.1 200", None)
        silent.pop().transport.close()
        await anyio.sleep(0.1)
        assert (await connect()).closed_at is None, "a place that is given back is free"

    served(scenario, caplog)
    assert "HTTP port 10.0.0.1:9101 refuses a connection of 10.0.0.2:" in caplog.text


def test_an_http_port_takes_its_limit_of_connections_and_not_one_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(connect: Connect) -> None:
        for number in range(MAX_HTTP_CONNECTIONS):
            await connect(f"10.0.1.{number % 200}")
        refused = await connect("10.0.0.3", GET)
        await anyio.sleep(0.1)
        assert refused.status == "HTTP/1.1 503"
        assert f"this port already has its maximum of {MAX_HTTP_CONNECTIONS} connections".encode() in refused.got
        await anyio.sleep(FIRST_REQUEST_S)
        late = await connect("10.0.0.3", GET)
        await anyio.sleep(0.1)
        assert late.status == "HTTP/1.1 200", "silent connections have given their places back"

    served(scenario, caplog)


@pytest.mark.parametrize("begun", [b"", b"GET /small", b"GET /small HTTP/1.1\r\nHost: a\r\nX: "])
def test_a_connection_without_a_whole_request_is_closed_however_often_a_byte_comes(
    begun: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(connect: Connect) -> None:
        peer = await connect(data=begun)
        for _ in range(int(FIRST_REQUEST_S) - 1):
            await anyio.sleep(1)
            if begun:
                peer.transport.write(b"a")
        assert peer.closed_at is None
        await anyio.sleep(1.5)
        assert peer.closed_at is not None
        assert peer.status == "HTTP/1.1 408"

    served(scenario, caplog)
    assert "no request came within 30 s" in caplog.text


def test_a_connection_that_is_idle_after_its_request_is_closed_after_a_scrape_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(connect: Connect) -> None:
        peer, half = await connect(data=GET), await connect(data=GET + GET[:-2])
        await anyio.sleep(HTTP_IDLE_S - 1)
        assert peer.closed_at is half.closed_at is None
        await anyio.sleep(2)
        assert peer.closed_at is not None
        assert half.closed_at is not None

    served(scenario, caplog)


def test_a_body_that_does_not_come_and_an_answer_that_is_not_read_cost_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(connect: Connect) -> None:
        half = await connect(data=b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{")
        peer = await connect(data=GET.replace(b"small", b"large"))
        peer.transport.pause_reading()
        await anyio.sleep(FRAME_TIMEOUT_S + 1)
        peer.transport.resume_reading()
        await anyio.sleep(1)
        assert peer.closed_at is not None
        assert len(peer.got) < 20_000_000
        assert half.status == "HTTP/1.1 408"
        await anyio.sleep(10)
        assert half.closed_at is not None

    served(scenario, caplog)
    assert "the peer has read nothing of its answer for 30 s" in caplog.text
