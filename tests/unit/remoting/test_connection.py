"""One connection on a recording transport and the virtual clock: what it writes, matches, refuses and gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from model.errors import (
    ConnectionLost,
    FlowControl,
    InvalidParameter,
    ProtocolError,
    RequestTimeout,
    SystemBusy,
    TopicNotExist,
)
from model.limits import (
    MAX_IN_FLIGHT_REQUESTS,
    MAX_UNSENT_BYTES,
    REQUEST_TIMEOUT_S,
)
from remoting.codec import CODEC
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.connection import Connection
from remoting.overload.incomplete_frame import PartialFrameBudget
from remoting.overload.peer_memory import PeerMemory
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import Simulation, run_simulation

GARBAGE = b"\x00\x00\x00\x01\xc1"


class RecordingTransport(asyncio.Transport):
    """Takes what is written, and blocks when told to; a socket without a kernel."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.9", 5000), "sockname": ("10.0.0.1", 9876)})
        self.writes: list[bytes] = []
        self.unsent_bytes = 0
        self.reading = True
        self.ending = ""

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def sent(self) -> list[Command]:
        return CODEC.decoder().feed(b"".join(self.writes))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.ending = self.ending or "closed"

    def abort(self) -> None:
        self.ending = "aborted"


class Rig:
    """A connection, its transport, and what it was asked to do by the peer."""

    def __init__(
        self,
        *,
        server: bool = True,
        frames: PartialFrameBudget | None = None,
        memory: PeerMemory[Connection] | None = None,
    ) -> None:
        self.requests: list[Command] = []
        self.closed: list[Exception | None] = []
        self.transport = RecordingTransport()
        self.connection = Connection(
            asyncio.get_running_loop(),
            on_request=lambda _, command: self.requests.append(command),
            on_closed=lambda _, error: self.closed.append(error),
            pause_reads_when_blocked=server,
            frames=frames,
            memory=memory,
        )
        self.connection.connection_made(self.transport)

    def receive(self, *commands: Command) -> None:
        self.connection.data_received(b"".join(CODEC.encode(*command) for command in commands))


def on_virtual_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run an async test in virtual time."""

    async def main(_: Simulation) -> None:
        await test()

    def run() -> None:
        run_simulation(main)

    run.__name__ = test.__name__
    return run


async def turn() -> None:
    """Let one turn of the loop pass, in which queued frames are written."""
    await checkpoint()
    await checkpoint()


@on_virtual_loop
async def test_it_knows_the_peers_address_and_its_own() -> None:
    rig = Rig()
    assert rig.connection.peer == "10.0.0.9:5000"
    assert rig.connection.local_host == "10.0.0.1"


@on_virtual_loop
async def test_everything_sent_in_one_turn_leaves_in_one_write() -> None:
    rig = Rig()
    for _ in range(10):
        _ = rig.connection.request(10)
    rig.connection.notify(40)
    rig.connection.respond(Command(REQUEST, 1, 5, {}, None))
    assert rig.transport.writes == []
    await turn()
    assert len(rig.transport.writes) == 1
    assert [(command.flags, command.opaque) for command in rig.transport.sent()] == [
        *((REQUEST, opaque) for opaque in range(1, 11)),
        (ONE_WAY, 0),
        (RESPONSE, 5),
    ]


@on_virtual_loop
async def test_answers_find_their_requests_in_any_order_whatever_their_code() -> None:
    rig = Rig()
    first, second = rig.connection.request(10), rig.connection.request(11)
    rig.receive(Command(RESPONSE, 17, 2, {"remark": "no"}, None), Command(RESPONSE, 0, 1, {"offset": 3}, b"body"))
    assert (await first).header == {"offset": 3}
    assert (await second).code == 17


@on_virtual_loop
async def test_a_request_times_out_after_its_time_and_its_late_answer_is_ignored() -> None:
    rig = Rig()
    slow, quick = rig.connection.request(11, timeout_s=30.0), rig.connection.request(10)
    with pytest.raises(RequestTimeout) as caught:
        await quick
    assert asyncio.get_running_loop().time() == pytest.approx(REQUEST_TIMEOUT_S)
    assert not caught.value.definite
    rig.receive(Command(RESPONSE, 0, 2, {}, None))
    with pytest.raises(RequestTimeout, match=r"no answer from 10\.0\.0\.9:5000"):
        await slow
    assert asyncio.get_running_loop().time() == pytest.approx(30.0)


@on_virtual_loop
async def test_a_caller_that_stops_waiting_is_forgotten_and_others_are_not() -> None:
    rig = Rig()
    first, second = rig.connection.request(10), rig.connection.request(10)
    first.cancel()
    rig.receive(Command(RESPONSE, 0, 1, {}, None), Command(RESPONSE, 0, 2, {}, None))
    assert (await second).code == 0


@on_virtual_loop
async def test_a_request_that_cannot_be_encoded_is_not_in_flight() -> None:
    rig = Rig()
    with pytest.raises(TypeError):
        _ = rig.connection.request(10, {"no": object()})
    for of_a_user in (2**65, "half of a pair \ud800"):
        with pytest.raises(InvalidParameter, match="nothing was sent"):
            _ = rig.connection.request(10, {"no": of_a_user})
    rig.connection.close()  # a future left in flight would fail unseen here, and the simulation would report it
    await turn()
    assert rig.transport.writes == []


@on_virtual_loop
async def test_the_in_flight_limit_refuses_a_request_before_it_is_sent() -> None:
    rig = Rig()
    waiting = [rig.connection.request(10) for _ in range(MAX_IN_FLIGHT_REQUESTS)]
    with pytest.raises(FlowControl):
        _ = rig.connection.request(10)
    await turn()
    assert len(rig.transport.sent()) == MAX_IN_FLIGHT_REQUESTS
    for future in waiting:
        future.cancel()


@on_virtual_loop
async def test_requests_of_the_peer_are_handed_on_and_answered_at_any_later_time() -> None:
    rig = Rig()
    request = Command(REQUEST, 11, 9, {"a": 1}, b"x")
    rig.receive(request)
    assert rig.requests == [request]
    await anyio.sleep(15)
    rig.connection.respond(request, {"next_offset": 1}, b"records")
    await turn()
    assert rig.transport.sent() == [Command(RESPONSE, 0, 9, {"next_offset": 1}, b"records")]


@on_virtual_loop
async def test_a_turn_of_the_loop_takes_fewer_requests_about_batches_so_that_both_sides_work_at_once() -> None:
    for code, in_a_turn in (
        (RequestCode.GET_MAX_OFFSET, 16),
        (RequestCode.POP_MESSAGE, 4),
        (RequestCode.HEART_BEAT, 16),
    ):
        rig = Rig()
        rig.receive(*[Command(REQUEST, code, opaque, {}, b"") for opaque in range(1, 21)])
        assert len(rig.requests) == in_a_turn
        await checkpoint()
        assert len(rig.requests) == min(20, 2 * in_a_turn)


@on_virtual_loop
async def test_a_one_way_request_gets_no_answer_not_even_an_error() -> None:
    rig = Rig()
    rig.connection.respond(Command(ONE_WAY, 15, 0, {}, None))
    rig.connection.respond_error(Command(ONE_WAY, 15, 0, {}, None), TopicNotExist("t"))
    await turn()
    assert rig.transport.writes == []


@on_virtual_loop
async def test_an_error_travels_as_its_code_and_a_remark_of_bounded_length() -> None:
    rig = Rig()
    rig.connection.respond_error(Command(REQUEST, 105, 3, {}, None), TopicNotExist("x" * 100_000))
    await turn()
    assert rig.transport.sent() == [Command(RESPONSE, 17, 3, {"remark": "x" * 1_000}, None)]


@on_virtual_loop
async def test_unanswered_requests_are_counted_down_by_answers_that_could_be_sent_only() -> None:
    rig = Rig()
    rig.connection.unanswered = 2
    with pytest.raises(TypeError):
        rig.connection.respond(Command(REQUEST, 10, 1, {}, None), {"no": object()})
    assert rig.connection.unanswered == 2
    rig.connection.respond(Command(REQUEST, 10, 1, {}, None))
    rig.connection.respond_error(Command(REQUEST, 10, 2, {}, None), SystemBusy("busy"))
    assert rig.connection.unanswered == 0


@on_virtual_loop
async def test_garbage_is_answered_by_one_frame_that_says_why_and_the_end() -> None:
    rig = Rig()
    waiting = rig.connection.request(10)
    rig.connection.data_received(CODEC.encode(REQUEST, 10, 1, {}, None) + GARBAGE + GARBAGE)
    rig.connection.data_received(CODEC.encode(REQUEST, 10, 2, {}, None))
    assert len(rig.requests) == 1  # what came before the garbage was served
    with pytest.raises(ConnectionLost):
        await waiting
    [_, error] = rig.transport.sent()
    assert (error.flags, error.code, error.opaque) == (RESPONSE, ProtocolError.code, 0)
    assert "must be the msgpack array" in error.header["remark"]
    assert rig.transport.ending == "closed"


@on_virtual_loop
async def test_what_the_peer_said_before_it_closed_is_in_the_error_of_those_who_waited() -> None:
    rig = Rig(server=False)
    waiting = rig.connection.request(10)
    rig.receive(Command(RESPONSE, SystemBusy.code, 0, {"remark": "16384 connections already"}, None))
    rig.connection.connection_lost(None)
    with pytest.raises(ConnectionLost, match="before the answer came; its reason: 16384 connections already"):
        await waiting


@on_virtual_loop
async def test_another_object_may_stand_in_one_connection_alone_and_once() -> None:
    frames: list[bytes] = []
    rig, other = Rig(), Rig()
    rig.connection.interpose({"_send": frames.append})
    for each in (rig, other):
        assert each.connection.notify(1)
    assert (len(frames), len(other.connection._out), rig.connection._out) == (1, 1, [])
    for wrong in ({"_send": print}, {"close": print}):
        with pytest.raises(AssertionError):
            rig.connection.interpose(wrong)
    rig.connection.interpose({})
    assert rig.connection.notify(1)
    assert (len(frames), len(rig.connection._out)) == (1, 1)


@on_virtual_loop
async def test_closing_sends_what_is_queued_and_aborting_does_not() -> None:
    closing, aborting = Rig(), Rig()
    for rig in (closing, aborting):
        rig.connection.respond(Command(REQUEST, 10, 1, {}, None))
    closing.connection.close()
    aborting.connection.abort()
    await turn()
    assert (len(closing.transport.sent()), closing.transport.ending) == (1, "closed")
    assert (len(aborting.transport.sent()), aborting.transport.ending) == (0, "aborted")


@on_virtual_loop
async def test_a_lost_connection_fails_what_waits_and_refuses_what_comes() -> None:
    rig = Rig()
    waiting = rig.connection.request(10)
    rig.connection.connection_lost(OSError("reset"))
    with pytest.raises(ConnectionLost) as caught:
        await waiting
    assert not caught.value.definite
    with pytest.raises(ConnectionLost, match="nothing was sent"):
        _ = rig.connection.request(10)
    assert not rig.connection.notify(40)
    rig.connection.respond(Command(REQUEST, 10, 1, {}, None))
    rig.connection.close()
    rig.connection.abort()
    await rig.connection.wait_closed()
    assert [str(error) for error in rig.closed] == ["reset"]


@pytest.mark.parametrize(("stream", "logged"), [(b"", 0), (b"\x00\x00", 1)])
def test_a_stream_that_ends_inside_a_frame_is_logged(
    stream: bytes, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(_: Simulation) -> None:
        rig = Rig()
        rig.connection.data_received(stream)
        assert rig.connection.eof_received() is False  # asyncio then closes the transport

    with caplog.at_level("INFO", logger=Connection.__module__):
        run_simulation(main)
    assert caplog.text.count("in the middle of a frame") == logged


@pytest.mark.parametrize("server", [True, False])
def test_a_peer_that_does_not_read_is_not_sent_more_requests_and_a_server_stops_reading_from_it(server: bool) -> None:
    async def main(_: Simulation) -> None:
        rig = Rig(server=server)
        rig.connection.pause_writing()
        assert not rig.connection.ready
        assert rig.transport.reading is not server
        assert not rig.connection.notify(40)
        went_on: list[float] = []

        async def waiter() -> None:
            await rig.connection.wait_writable()
            went_on.append(asyncio.get_running_loop().time())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiter)
            await anyio.sleep(5)
            assert went_on == []
            rig.connection.resume_writing()
        assert went_on == [5]
        assert rig.transport.reading
        assert rig.connection.ready
        assert rig.connection.notify(40)
        await rig.connection.wait_writable()

    run_simulation(main)


@on_virtual_loop
async def test_waiting_for_a_peer_to_read_ends_with_the_connection() -> None:
    rig = Rig()
    rig.connection.pause_writing()
    asyncio.get_running_loop().call_later(1, rig.connection.connection_lost, None)
    with pytest.raises(ConnectionLost, match="nothing was sent"):
        await rig.connection.wait_writable()
    assert asyncio.get_running_loop().time() == 1


@on_virtual_loop
async def test_answers_due_to_a_peer_that_does_not_read_go_out_until_it_is_cut_off() -> None:
    rig = Rig()
    rig.connection.pause_writing()
    for unsent_bytes, ending in ((MAX_UNSENT_BYTES, ""), (MAX_UNSENT_BYTES + 1, "aborted")):
        rig.transport.unsent_bytes = unsent_bytes
        rig.connection.respond(Command(REQUEST, 11, 1, {}, None))
        await turn()
        assert rig.transport.ending == ending
    assert rig.connection.closed
