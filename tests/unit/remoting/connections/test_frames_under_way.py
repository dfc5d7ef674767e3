"""Frames of which a part has come: their time, and the room that they share."""

from __future__ import annotations

import asyncio

import anyio

from model.limits import FRAME_TIMEOUT_S, MAX_FRAME_BYTES, MAX_FRAMES_UNDER_WAY_BYTES
from remoting.address import parse_address
from remoting.client import RemotingClient
from remoting.codec import CODEC, LENGTH_BYTES
from remoting.command import REQUEST
from remoting.overload.incomplete_frame import PartialFrameBudget
from remoting.server import RemotingServer
from testbed.simulation.kernel.run import Simulation
from tests.unit.remoting.test_connection import Rig, on_virtual_loop
from tests.unit.remoting.test_server import ADDRESS, STATE, Service, served

LARGE = CODEC.encode(REQUEST, 10, 1, {}, bytes(1_000_000))


@on_virtual_loop
async def test_a_frame_that_is_not_whole_in_time_is_dropped_with_its_connection_however_often_a_byte_comes() -> None:
    rig = Rig()
    rig.connection.data_received(LARGE[:10])
    for at in range(10, 10 + int(FRAME_TIMEOUT_S) - 1):
        await anyio.sleep(1)
        rig.connection.data_received(LARGE[at : at + 1])
    assert rig.transport.ending == ""
    await anyio.sleep(1.1)
    [answer] = rig.transport.sent()
    assert "a frame of 1000" in answer.header["remark"]
    assert "is not whole 30 s after its first byte" in answer.header["remark"]
    assert rig.transport.ending == "closed"


@on_virtual_loop
async def test_each_frame_has_its_own_time_and_between_frames_silence_is_not_a_fault() -> None:
    rig = Rig()
    for _ in range(4):
        rig.connection.data_received(LARGE[:3])
        await anyio.sleep(FRAME_TIMEOUT_S - 1)
        rig.connection.data_received(LARGE[3:] + LARGE[:2])
        await anyio.sleep(FRAME_TIMEOUT_S - 1)
        rig.connection.data_received(LARGE[2:])
    await anyio.sleep(10 * FRAME_TIMEOUT_S)
    assert (len(rig.requests), rig.transport.ending) == (8, "")


@on_virtual_loop
async def test_a_peer_that_neither_sends_the_rest_of_its_frame_nor_reads_is_cut_off() -> None:
    rig = Rig()
    rig.connection.pause_writing()
    rig.connection.data_received(LARGE[:10])
    await anyio.sleep(FRAME_TIMEOUT_S + 0.1)
    assert rig.transport.ending == "aborted"


@on_virtual_loop
async def test_a_process_that_was_stopped_blames_no_peer_for_it() -> None:
    rig = Rig()
    rig.connection.data_received(LARGE[:10])
    timer = rig.connection._frame._timer
    assert timer is not None
    timer.cancel()
    await anyio.sleep(10 * FRAME_TIMEOUT_S)
    rig.connection._frame._look()  # as if the process had not run when the timer was due
    rig.connection.data_received(LARGE[10:])
    assert (len(rig.requests), rig.transport.ending) == (1, "")


@on_virtual_loop
async def test_a_large_frame_is_not_read_before_the_frames_under_way_leave_room_for_it() -> None:
    frames = PartialFrameBudget(2_500_000)
    rigs = [Rig(frames=frames) for _ in range(4)]
    for rig in rigs:
        rig.connection.data_received(LARGE[:100])
    assert [rig.transport.reading for rig in rigs] == [True, True, False, False]
    small = Rig(frames=frames)
    small.connection.data_received(b"".join(CODEC.encode(REQUEST, 10, n, {}, b"") for n in range(3))[:-1])
    assert (len(small.requests), small.transport.reading) == (2, True)
    rigs[1].connection.data_received(LARGE[100:])
    assert [rig.transport.reading for rig in rigs] == [True, True, True, False]
    rigs[0].connection.abort()
    assert [rig.transport.reading for rig in rigs[2:]] == [True, True]
    for rig in rigs[2:]:
        rig.connection.data_received(LARGE[100:])
    assert [len(rig.requests) for rig in rigs] == [0, 1, 1, 1]


@on_virtual_loop
async def test_a_connection_that_waits_for_room_is_not_late() -> None:
    frames = PartialFrameBudget(1_500_000)
    first, second = Rig(frames=frames), Rig(frames=frames)
    first.connection.data_received(LARGE[:100])
    await anyio.sleep(1)
    second.connection.data_received(LARGE[:100])
    await anyio.sleep(FRAME_TIMEOUT_S - 1)
    assert (first.transport.ending, second.transport.ending) == ("closed", "")
    assert second.transport.reading
    await anyio.sleep(FRAME_TIMEOUT_S - 0.1)
    second.connection.data_received(LARGE[100:])
    assert len(second.requests) == 1


# --- half-sent frames ------------------------------------------------------------------------------------------------
@served
async def test_half_sent_frames_of_a_server_share_one_budget_and_small_requests_pass(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    class Sender(asyncio.Protocol):
        """Sends half of a frame of the greatest length."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(MAX_FRAME_BYTES.to_bytes(LENGTH_BYTES, "big") + bytes(1_000_000))

    for host in (0, 0, 1, 2, 3, 4, 5, 6):
        with simulation.on_host(f"host-{host}"):
            await simulation.loop.create_connection(Sender, *parse_address(ADDRESS))
    await anyio.sleep(1)
    paused = [connection._reading_paused for connection in server.connections]
    admitted = MAX_FRAMES_UNDER_WAY_BYTES // MAX_FRAME_BYTES
    assert admitted == 4
    assert paused == [False, True, False, False, False, True, True, True], "the second is of the host of the first"
    assert (await client.request(ADDRESS, STATE)).header["kind"] == "instant"
    await anyio.sleep(FRAME_TIMEOUT_S)
    assert len(server.connections) == 8 - admitted + 1
    await anyio.sleep(FRAME_TIMEOUT_S)
    assert len(server.connections) == 1
