"""What a peer may have of a server: connections, time before its first request, and bytes that wait for it."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from model import limits
from model.errors import ConnectionLost, SystemBusy
from model.limits import (
    LINES_AT_ONCE,
    MAX_INBOX_BYTES,
    MAX_INBOX_COMMANDS,
    MAX_UNANSWERED_BYTES_OF_ONE,
    MAX_UNREAD_BYTES,
)
from remoting.client import RemotingClient, raise_for_code
from remoting.codec import CODEC
from remoting.command import REQUEST, Command
from remoting.connection import Connection
from remoting.overload.peer_memory import PeerMemory
from remoting.request_code import RequestCode
from remoting.server import serve
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.remoting.test_connection import Rig, on_virtual_loop, turn
from tests.unit.remoting.test_server import ADDRESS, PULL, STATE, Service

SENT = {"topic": "t", "queue_id": 0, "tag_hash": 0}


def test_one_address_has_its_share_of_connections_and_others_find_a_place() -> None:
    service = Service()

    async def main(_: Simulation) -> None:
        options: dict[str, Any] = {"max_connections": 3, "max_connections_of_address": 2}
        async with (
            serve(service.handlers(), ADDRESS, on_closed=service.closed, **options) as server,
            RemotingClient() as first,
            RemotingClient() as second,
            RemotingClient() as third,
        ):
            await first.request(ADDRESS, STATE)
            await second.request(ADDRESS, STATE)
            with pytest.raises(ConnectionLost, match="your address has as many connections as it may: 2"):
                await third.request(ADDRESS, STATE)
            await first.aclose()
            await anyio.sleep(1)
            await third.request(ADDRESS, STATE)
            assert len(server.connections) == 2

    run_simulation(main)


@on_virtual_loop
async def test_a_peer_is_not_read_while_more_commands_wait_than_the_limit() -> None:
    rig = Rig()
    frame = CODEC.encode(REQUEST, 10, 1, {}, None)
    rig.connection.data_received(frame * (limits.COMMANDS_PER_ITERATION + MAX_INBOX_COMMANDS))
    assert rig.transport.reading
    rig.connection.data_received(frame)
    assert not rig.transport.reading
    await turn()
    assert rig.transport.reading


@on_virtual_loop
async def test_a_peer_is_not_read_while_more_has_come_of_it_than_is_handled_in_time() -> None:
    rig = Rig()
    frame = CODEC.encode(REQUEST, 10, 1, {}, bytes(60_000))
    rig.connection.data_received(frame * 2)
    n = 2
    while rig.transport.reading:
        rig.connection.data_received(frame)
        n += 1
    assert (n - 1) * len(frame) <= MAX_INBOX_BYTES < n * len(frame)
    for _ in range(n):
        await turn()
    assert (len(rig.requests), rig.transport.reading) == (n, True)


@on_virtual_loop
async def test_a_peer_is_not_read_while_the_bodies_of_its_unanswered_requests_are_above_the_limit() -> None:
    memory: PeerMemory[Connection] = PeerMemory()
    rig = Rig(memory=memory)
    body = bytes(MAX_UNANSWERED_BYTES_OF_ONE // 4)
    requests = [Command(REQUEST, 10, n, {}, body) for n in range(4)]
    for request in requests:
        rig.connection.accept(request)
    assert rig.transport.reading
    one_more = Command(REQUEST, 10, 5, {}, b"x")
    rig.connection.accept(one_more)
    assert not rig.transport.reading
    rig.connection.respond(one_more)
    assert rig.transport.reading
    assert memory.unanswered_bytes == MAX_UNANSWERED_BYTES_OF_ONE
    rig.connection.connection_lost(None)
    assert memory.unanswered_bytes == 0
    for request in requests:
        rig.connection.respond(request)
    assert memory.unanswered_bytes == 0, "what is answered after the end counts once"


def test_a_server_with_too_many_unanswered_bytes_refuses_new_work_and_serves_all_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("remoting.server.MAX_UNANSWERED_BYTES", 1_000)
    service = Service()
    send = RequestCode.SEND_MESSAGE

    async def main(_: Simulation) -> None:
        handlers = {**service.handlers(), send: service.hold, PULL: service.hold}
        async with serve(handlers, ADDRESS, on_closed=service.closed) as server, RemotingClient() as client:
            connection = await client.connect(ADDRESS)
            first = connection.request(send, SENT, bytes(999))
            await anyio.sleep(0.1)
            second = connection.request(send, SENT, b"x")
            with pytest.raises(SystemBusy, match="as many unanswered bytes as it may"):
                raise_for_code(await connection.request(send, SENT, b"x"))
            await client.request(ADDRESS, STATE)
            for held in service.held:
                server.connections[0].respond(held[1])
            assert (await first).code == 0
            assert (await second).code == 0
            last = connection.request(send, SENT, b"x")
            await anyio.sleep(0.1)
            server.connections[0].respond(service.held[-1][1])
            assert (await last).code == 0

    with caplog.at_level(logging.WARNING):
        run_simulation(main)
    assert "refuses new work: 1001 bytes of requests are unanswered" in caplog.text


@on_virtual_loop
async def test_when_all_peers_together_leave_too_much_unread_the_one_that_read_longest_ago_is_cut_off() -> None:
    memory: PeerMemory[Connection] = PeerMemory()
    rigs = [Rig(memory=memory) for _ in range(limits.MAX_UNREAD_BYTES // limits.MAX_UNSENT_BYTES)]
    for rig in rigs:
        rig.transport.unsent_bytes = limits.MAX_UNSENT_BYTES
        rig.connection.pause_writing()
    assert len(rigs) * limits.MAX_UNSENT_BYTES == MAX_UNREAD_BYTES
    assert {rig.transport.ending for rig in rigs} == {""}
    rigs[0].connection.resume_writing()
    rigs[0].connection.pause_writing()
    last = Rig(memory=memory)
    last.transport.unsent_bytes = 1
    last.connection.pause_writing()
    assert [rig.transport.ending for rig in [*rigs, last]] == ["", "aborted", *[""] * (len(rigs) - 1)]


def test_garbage_over_connections_that_are_redelivered_and_again_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    service = Service()

    async def main(simulation: Simulation) -> None:
        async with serve(service.handlers(), ADDRESS, on_closed=service.closed):
            for _ in range(3 * LINES_AT_ONCE):
                client = RemotingClient()
                connection = await client.connect(ADDRESS)
                connection.send_frame(b"GET / HTTP/1.1\r\n\r\n")
                await connection.wait_closed()

    run_simulation(main)
    assert caplog.text.count("closing the connection of") == LINES_AT_ONCE
