"""Dispatch, refusal and shutdown of a server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from model.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    FlowControl,
    IllegalOperation,
    InvalidParameter,
    RequestCodeNotSupported,
    RlabError,
    ServiceNotAvailable,
    SystemBusy,
    SystemError_,
    UsageError,
)
from model.limits import MAX_FRAME_BYTES, MAX_IN_FLIGHT_REQUESTS
from remoting.client import RemotingClient, raise_for_code
from remoting.codec import CODEC
from remoting.command import RESPONSE, Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer, serve
from testbed.simulation.kernel.run import Simulation, run_simulation

ADDRESS = "10.0.0.1:9876"
STATE, ROUTE, PULL = RequestCode.GET_SERVER_STATE, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_GROUP_LIST


class Service:
    """A server with one handler of each kind, and a client."""

    def __init__(self) -> None:
        self.held: list[tuple[Connection, Command]] = []
        self.gone: list[int] = []
        self.release = anyio.Event()
        self.outcome: Callable[[], Reply] = lambda: Reply({"kind": "instant"})

    def handlers(self) -> dict[RequestCode, Handler]:
        return {STATE: self.instant, ROUTE: self.slow, PULL: self.hold}

    def instant(self, connection: Connection, request: Command) -> Reply:
        return self.outcome()

    async def slow(self, connection: Connection, request: Command) -> Reply:
        await self.release.wait()
        return self.outcome()

    def hold(self, connection: Connection, request: Command) -> None:
        self.held.append((connection, request))

    def closed(self, connection: Connection) -> None:
        self.gone.append(connection.number)


Scenario = Callable[[Simulation, Service, RemotingServer, RemotingClient], Awaitable[None]]


def served(scenario: Scenario) -> Callable[[], None]:
    """Run an async test in virtual time with a server and a client of its own."""

    async def main(simulation: Simulation) -> None:
        service = Service()
        async with (
            serve(service.handlers(), ADDRESS, on_closed=service.closed) as server,
            RemotingClient() as client,
        ):
            await scenario(simulation, service, server, client)

    def run() -> None:
        run_simulation(main)

    run.__name__ = scenario.__name__
    return run


# --- dispatch --------------------------------------------------------------------------------------------------------


@served
async def test_handlers_answer_at_once_or_as_coroutines_or_later_by_themselves(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    connection = await client.connect(ADDRESS)
    held = connection.request(PULL, timeout_s=60)
    slow = connection.request(ROUTE, {"topic": "t"}, timeout_s=60)
    # Neither the held request nor the one that runs blocks the others of the connection.
    assert (await client.request(ADDRESS, STATE)).header == {"kind": "instant"}
    assert not slow.done()
    service.release.set()
    assert (await slow).header == {"kind": "instant"}
    await anyio.sleep(10)
    [(server_side, request)] = service.held
    assert not held.done()
    assert server_side.unanswered == 1
    server_side.respond(request, {"n": 1}, b"x")
    assert (await held).body == b"x"
    assert server_side.unanswered == 0


@served
async def test_an_unknown_code_and_a_bad_field_are_refused_by_name(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    for code in (4711, -1, RequestCode.SEND_MESSAGE):
        with pytest.raises(RequestCodeNotSupported, match=f"request code {int(code)} is not served here"):
            await client.request(ADDRESS, code)
    with pytest.raises(InvalidParameter, match="GET_ROUTEINFO_BY_TOPIC: field 'topic' must be of type str, got 5"):
        await client.request(ADDRESS, ROUTE, {"topic": 5})


class WithoutCode(UsageError):
    """An error of the tree that has no number on the wire."""


@pytest.mark.parametrize("code", [STATE, ROUTE], ids=["instant", "coroutine"])
@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (SystemBusy("table full"), SystemBusy, "table full"),
        (WithoutCode("odd"), SystemError_, "odd"),
        (KeyError("secret"), SystemError_, "unexpected KeyError; see the server's log"),
    ],
    ids=["known", "no-code", "unexpected"],
)
def test_what_a_handler_raises_is_the_callers_answer_and_no_one_elses(
    code: RequestCode, raised: Exception, expected: type[RlabError], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Reply:
        raise raised

    async def scenario(
        simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
    ) -> None:
        service.release.set()
        service.outcome = fail
        with pytest.raises(expected, match=text):
            await client.request(ADDRESS, code, {"topic": "t"})
        service.outcome = lambda: Reply({})
        await client.request(ADDRESS, code, {"topic": "t"})
        assert server.connections[0].unanswered == 0

    served(scenario)()
    # Only a bug of ours leaves a traceback, and the peer gets none of it.
    assert ("secret" in caplog.text) == isinstance(raised, KeyError)


@pytest.mark.parametrize("code", [STATE, ROUTE], ids=["instant", "coroutine"])
@pytest.mark.parametrize(
    ("reply", "expected", "text"),
    [
        (
            Reply({}, b"x" * MAX_FRAME_BYTES),
            IllegalOperation,
            "does not fit a frame, so ask for less: .* 167",
        ),
        (Reply({"no": object()}), SystemError_, "unexpected TypeError"),
    ],
    ids=["too large", "not msgpack"],
)
def test_an_answer_that_is_not_a_frame_becomes_an_error_that_says_whose_fault_it_is_and_the_connection_goes_on(
    code: RequestCode, reply: Reply, expected: type[RlabError], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(
        simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
    ) -> None:
        service.release.set()
        service.outcome = lambda: reply
        with pytest.raises(expected, match=text):
            await client.request(ADDRESS, code, {"topic": "t"})
        assert server.connections[0].unanswered == 0
        service.outcome = lambda: Reply({})
        await client.request(ADDRESS, code, {"topic": "t"})
        assert simulation.network.statistics().connections_opened == 1

    served(scenario)()
    has_traceback = any(record.exc_info for record in caplog.records)
    assert has_traceback == (expected is SystemError_), "an answer that is too large is no bug"


@served
async def test_one_way_requests_are_served_and_not_answered(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    connection = await client.connect(ADDRESS)
    for code in (STATE, 4711):
        assert connection.notify(code)
    await client.request(ADDRESS, STATE)
    assert server.connections[0].unanswered == 0


@served
async def test_a_peer_with_too_many_unanswered_requests_is_reported_to_wait(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    await client.request(ADDRESS, STATE)
    [connection] = server.connections
    connection.unanswered = MAX_IN_FLIGHT_REQUESTS - 1
    await client.request(ADDRESS, STATE)
    connection.unanswered = MAX_IN_FLIGHT_REQUESTS
    with pytest.raises(FlowControl, match="too many unanswered requests, 65537: wait"):
        await client.request(ADDRESS, STATE)
    assert connection.unanswered == MAX_IN_FLIGHT_REQUESTS


# --- connections -----------------------------------------------------------------------------------------------------


@served
async def test_connections_have_numbers_and_each_is_reported_as_gone_once(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    async with RemotingClient() as other:
        await client.request(ADDRESS, STATE)
        await other.request(ADDRESS, STATE)
        first, second = server.connections
        assert (first.number, second.number) == (1, 2)
        assert server.connection(2) is second
    await anyio.sleep(1)
    assert server.connection(2) is None
    assert server.connections == (first,)
    assert simulation.network.cut("127.0.0.1", "10.0.0.1") == 1
    await anyio.sleep(1)
    assert service.gone == [2, 1]


def test_as_many_connections_as_the_limit_are_served_and_the_next_is_notified_why_not() -> None:
    service = Service()

    async def main(_: Simulation) -> None:
        async with (
            serve(service.handlers(), ADDRESS, on_closed=service.closed, max_connections=1),
            RemotingClient() as first,
            RemotingClient() as second,
        ):
            await first.request(ADDRESS, STATE)
            with pytest.raises(ConnectionLost, match="its reason: this server has as many connections as it may: 1"):
                await second.request(ADDRESS, STATE)
            await first.request(ADDRESS, STATE)
            await first.aclose()
            await anyio.sleep(1)
            await second.request(ADDRESS, STATE)
            assert service.gone == [1]  # the one that was turned away was never there

    run_simulation(main)


@served
async def test_garbage_costs_its_sender_the_connection_and_no_one_else_anything(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    await client.request(ADDRESS, STATE)
    reader, writer = await asyncio.open_connection("10.0.0.1", 9876)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    [error] = CODEC.decoder().feed(await reader.read())
    assert (error.flags, error.code, error.opaque) == (RESPONSE, 90_001, 0)
    assert "not frames of this protocol" in error.header["remark"]
    writer.close()
    await client.request(ADDRESS, STATE)
    assert len(server.connections) == 1


# --- life and end ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["nonsense", "10.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    async def main(_: Simulation) -> None:
        async with serve({}, listen):
            pass

    with pytest.raises(ConfigError, match="write host:port"):
        run_simulation(main)


@served
async def test_a_port_in_use_is_refused_with_what_to_do(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 10\.0\.0\.1:9876 .*Choose another one"):
        async with serve({}, ADDRESS):
            pass


def test_port_zero_takes_a_free_one_and_reports_which() -> None:
    async def main(_: Simulation) -> None:
        async with serve({}, "10.0.0.1:0") as first, serve({}, "10.0.0.1:0") as second:
            assert first.address != second.address
            async with RemotingClient() as client:
                await client.connect(first.address)

    run_simulation(main)


def test_the_error_of_the_block_comes_out_as_itself_and_the_port_is_free_again() -> None:
    async def main(_: Simulation) -> None:
        with pytest.raises(KeyError):
            async with serve({}, ADDRESS):
                raise KeyError("of the block")
        async with serve({}, ADDRESS):
            pass

    run_simulation(main)


@served
async def test_stop_finishes_what_runs_refuses_what_comes_and_then_closes(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    connection = await client.connect(ADDRESS)
    slow = connection.request(ROUTE, {"topic": "t"}, timeout_s=60)
    held = connection.request(PULL, timeout_s=60)
    await anyio.sleep(0.1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.stop, 5.0)
        await anyio.sleep(0.1)
        with pytest.raises(ServiceNotAvailable) as caught:
            raise_for_code(await connection.request(STATE))
        assert caught.value.definite
        assert caught.value.retryable
        async with RemotingClient() as late:
            with pytest.raises(ConnectionLost, match="its reason: the server is shutting down"):
                await late.request(ADDRESS, STATE)
        service.release.set()
        assert (await slow).code == 0
        with pytest.raises(ConnectionLost):
            await held
    assert server.connections == ()
    assert simulation.loop.time() < 1
    await server.stop(5.0)


@served
async def test_stop_gives_up_on_a_handler_that_does_not_end(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    connection = await client.connect(ADDRESS)
    slow = connection.request(ROUTE, {"topic": "t"}, timeout_s=60)
    await anyio.sleep(0.1)
    await server.stop(5.0)
    with pytest.raises(ConnectionLost):
        await slow
    assert simulation.loop.time() == pytest.approx(5.1, abs=0.01)


@served
async def test_stop_aborts_a_peer_that_does_not_take_its_answers(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    service.outcome = lambda: Reply({}, b"x" * 1_000_000)
    connection = await client.connect(ADDRESS)
    await client.request(ADDRESS, STATE)
    waiting = connection.request(STATE, timeout_s=60)
    with simulation.network.partition("10.0.0.1", "127.0.0.1", one_way=True):
        await anyio.sleep(1)
        await server.stop(5.0)
        await anyio.lowlevel.checkpoint()
        assert server.connections == ()
        assert simulation.loop.time() == pytest.approx(6.0, abs=0.1)
    with pytest.raises(ConnectionLost):
        await waiting


def test_a_cancelled_server_releases_its_port_and_its_connections() -> None:
    async def main(simulation: Simulation) -> None:
        service = Service()
        async with RemotingClient() as client:
            with anyio.move_on_after(1) as scope:
                async with serve(service.handlers(), ADDRESS):
                    slow = (await client.connect(ADDRESS)).request(ROUTE, {"topic": "t"}, timeout_s=60)
                    await anyio.sleep_forever()
            assert scope.cancelled_caught
            with pytest.raises(ConnectionLost):
                await slow
            with pytest.raises(ConnectFailed):
                await client.connect(ADDRESS)
            async with serve({}, ADDRESS):
                pass

    run_simulation(main)
