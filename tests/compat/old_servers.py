"""The servers of an earlier commit, as far as their recorded answers and notifications go.

A request gets the answer to the recorded request of the same client that is most like it, after the same time: a pull
that was held is held. What was recorded of a client without a request comes at its time. A request that the old servers
do not know is refused as they refuse it, and each that they could not read is noted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import anyio

from model.response_code import ResponseCode
from remoting.codec import CODEC, LENGTH_BYTES, decode_frame
from remoting.command import ONE_WAY, RESPONSE, Command
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import Simulation
from tests.compat.recording import BROKER_HOST, Recording, content, differences, refusals

PORTS = {"namesrv-1": 9876, BROKER_HOST: 10911}
MUST_EQUAL = ("topic", "queue_id", "offset", "group", "key", "query_id")
"""Fields by which an answer belongs to a request, as far as it has them."""


@dataclass(slots=True)
class Exchange:
    """A recorded request and its answer, if it got one, and how often that was given again."""

    client: str
    request: Command
    answer: Command | None
    after_s: float
    used: int = 0


class OldServers:
    """The servers of a recording, on their hosts in a simulated world."""

    def __init__(self, simulation: Simulation, recording: Recording, *hosts: str) -> None:
        self._hosts = hosts or tuple(PORTS)
        self.unreadable: list[str] = []  # requests that the old servers could not read, and why
        self.answered: dict[str, None] = {}  # names of the requests that were answered as recorded
        self._simulation = simulation
        self._schema = recording.schema
        self._exchanges: dict[tuple[str, int], list[Exchange]] = {}
        self._pushes = [
            (frame.at_s, frame.client, frame.command)
            for frame in recording.frames
            if frame.from_server and frame.command.flags == ONE_WAY
        ]
        self._servers: list[asyncio.Server] = []
        self._connected: list[asyncio.StreamWriter] = []
        self._writers: dict[str, asyncio.StreamWriter] = {}
        answers = {
            (frame.connection, frame.command.opaque): frame
            for frame in recording.frames
            if frame.from_server and frame.command.flags == RESPONSE
        }
        for frame in recording.frames:
            if not frame.from_server:
                found = (
                    None if frame.command.flags == ONE_WAY else answers.get((frame.connection, frame.command.opaque))
                )
                after_s = 0.0 if found is None else found.at_s - frame.at_s
                exchange = Exchange(frame.client, frame.command, found and found.command, after_s)
                self._exchanges.setdefault((frame.server, frame.command.code), []).append(exchange)

    async def __aenter__(self) -> OldServers:
        for host in self._hosts:
            with self._simulation.on_host(host):
                self._servers.append(await asyncio.start_server(self._serve_as(host), "0.0.0.0", PORTS[host]))
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._push)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        for server in self._servers:
            server.close()
        for writer in self._connected:
            writer.close()
        await anyio.sleep(1)  # until each connection has seen it

    def _serve_as(self, server: str) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            client = writer.get_extra_info("peername")[0]
            self._connected.append(writer)
            if server == BROKER_HOST:
                self._writers[client] = writer
            try:
                while True:
                    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                    request = decode_frame(await reader.readexactly(length))
                    self._tasks.start_soon(self._answer, server, client, request, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        return serve

    async def _push(self) -> None:
        for at_s, client, command in self._pushes:
            await anyio.sleep(max(0.0, at_s - self._simulation.loop.time()))
            if client in self._writers:
                frame = CODEC.encode(ONE_WAY, command.code, 0, command.header, command.body)
                self._writers[client].write(frame)

    async def _answer(self, server: str, client: str, request: Command, writer: asyncio.StreamWriter) -> None:
        if request.code not in self._schema:
            self._write(
                writer, request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, {"remark": "unknown request code"}, None
            )
            return
        name = RequestCode(request.code).name
        exchanges = self._exchanges.get((server, request.code), [])
        wrong = refusals(self._schema[request.code], request.header)
        wrong += self._body_differences(request, exchanges)
        self.unreadable += [f"{client}, {name}: {each}" for each in wrong]
        found = self._most_like(client, request, exchanges)
        if found is None or found.answer is None or request.flags == ONE_WAY:
            return  # it was held, until its client had left
        found.used += 1
        self.answered[name] = None
        await anyio.sleep(max(0.0, found.after_s - 0.001))
        self._write(writer, request, found.answer.code, found.answer.header, found.answer.body)

    def _write(
        self, writer: asyncio.StreamWriter, request: Command, code: int, header: dict[str, Any], body: bytes | None
    ) -> None:
        if not writer.is_closing():
            writer.write(CODEC.encode(RESPONSE, code, request.opaque, header, body))

    def _body_differences(self, request: Command, exchanges: list[Exchange]) -> list[str]:
        """How the body differs from the recorded one that it is most like."""
        new = None if request.code == RequestCode.PULL_MESSAGE else content(request.code, request.body)
        bodies = (content(each.request.code, each.request.body) for each in exchanges if each.request.body is not None)
        return min((differences(old, new) for old in bodies), key=len, default=[])

    def _most_like(self, client: str, request: Command, exchanges: list[Exchange]) -> Exchange | None:
        def rank(exchange: Exchange) -> tuple[bool, int, int]:
            header = exchange.request.header
            equal = sum(header.get(name) == value for name, value in request.header.items())
            equal += 2 * (exchange.request.body == request.body)
            return (exchange.client == client, equal, -exchange.used)

        fitting = [
            each
            for each in exchanges
            if each.request.flags == request.flags and _belongs(each.request.header, request.header)
        ]
        # Of equal ones the first: what was asked again got its answers in this order.
        return max(fitting, key=rank, default=None)


def _belongs(recorded: dict[str, Any], asked: dict[str, Any]) -> bool:
    return all(recorded.get(name) == asked.get(name) for name in MUST_EQUAL)
