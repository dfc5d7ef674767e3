"""Connections made when needed, shared, given up and made again, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import ConfigError, ConnectFailed, ConnectionLost, NotMaster, SystemBusy, SystemError_, TopicNotExist
from model.limits import CONNECT_TIMEOUT_S, RECONNECT_FIRST_S, RECONNECT_MAX_S, WRITE_HIGH_WATER_BYTES
from model.response_code import ResponseCode
from remoting.client import Backoff, RemotingClient, raise_for_code
from remoting.command import RESPONSE, Command, Reply, error_of_response
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.server import RemotingServer, serve
from rocketmq.outward.dialect import OutwardDialect
from testbed.simulation.kernel.run import Simulation, run_simulation

SERVER, UNREACHABLE = "10.0.0.1:9876", "10.0.0.1:1"
STATE, ROUTE = RequestCode.GET_SERVER_STATE, RequestCode.GET_ROUTEINFO_BY_TOPIC


def state(connection: Connection, request: Command) -> Reply:
    return Reply({"kind": "echo"}, request.body)


def no_route(connection: Connection, request: Command) -> Reply:
    raise TopicNotExist(f"no topic {request.header['topic']!r}")


HANDLERS = {STATE: state, ROUTE: no_route}


def with_server(test: Callable[[Simulation, RemotingServer], Awaitable[None]]) -> Callable[[], None]:
    """Run an async test in virtual time against a server of its own."""

    async def main(simulation: Simulation) -> None:
        async with serve(HANDLERS, SERVER) as server:
            await test(simulation, server)

    def run() -> None:
        run_simulation(main)

    run.__name__ = test.__name__
    return run


# --- back-off --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 2**32), st.floats(0, 1e6))
def test_each_wait_is_half_to_all_of_twice_the_last_one_up_to_the_cap(failures: int, seed: int, now: float) -> None:
    backoff, rng = Backoff(), random.Random(seed)
    assert backoff.wait_s(now) == 0
    for i in range(failures):
        backoff.failed(now, rng)
        longest = min(RECONNECT_MAX_S, RECONNECT_FIRST_S * 2**i)
        assert longest / 2 - 1e-6 <= backoff.wait_s(now) <= longest + 1e-6
    assert backoff.wait_s(now + 1) == pytest.approx(max(0.0, backoff.wait_s(now) - 1), abs=1e-6)


def test_clients_of_one_restarted_server_spread_out() -> None:
    waits = []
    for seed in range(100):
        backoff = Backoff()
        backoff.failed(0.0, random.Random(seed))
        waits.append(backoff.wait_s(0.0))
    assert max(waits) - min(waits) > RECONNECT_FIRST_S * 0.4


# --- answers ---------------------------------------------------------------------------------------------------------


def test_a_response_that_is_not_a_success_becomes_its_error() -> None:
    fine = Command(RESPONSE, 0, 1, {}, None)
    assert raise_for_code(fine) is fine
    with pytest.raises(TopicNotExist, match="gone"):
        raise_for_code(Command(RESPONSE, 17, 1, {"remark": "gone"}, None))
    with pytest.raises(SystemError_, match="unknown response code 4711: no remark"):
        raise_for_code(Command(RESPONSE, 4711, 1, {}, None))


@with_server
async def test_a_request_is_answered_or_fails_with_the_servers_error(
    simulation: Simulation, server: RemotingServer
) -> None:
    async with RemotingClient() as client:
        assert (await client.request(SERVER, STATE, body=b"x")).body == b"x"
        with pytest.raises(TopicNotExist, match="no topic 'orders'"):
            await client.request(SERVER, ROUTE, {"topic": "orders"})
        assert len(server.connections) == 1


# --- dialling --------------------------------------------------------------------------------------------------------


@with_server
async def test_callers_at_the_same_time_share_one_dial(simulation: Simulation, server: RemotingServer) -> None:
    async with RemotingClient() as client, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(client.request, SERVER, STATE)
    assert simulation.network.statistics().connections_opened == 1


@with_server
async def test_a_refused_connect_is_definite_and_the_next_one_fails_at_once_until_it_is_due(
    simulation: Simulation, server: RemotingServer
) -> None:
    async with RemotingClient(rng=simulation.random) as client:
        with pytest.raises(ConnectFailed, match=f"cannot connect to {UNREACHABLE}: .*is it running") as caught:
            await client.connect(UNREACHABLE)
        assert caught.value.definite
        wait_s = client.backoff_s(UNREACHABLE)
        assert 0 < wait_s <= RECONNECT_FIRST_S
        before = simulation.loop.time()
        with pytest.raises(ConnectFailed, match="next attempt in 0"):
            await client.connect(UNREACHABLE)
        assert simulation.loop.time() == before
        assert client.backoff_s(SERVER) == 0
        await anyio.sleep(wait_s)
        async with serve(HANDLERS, UNREACHABLE):
            await client.connect(UNREACHABLE)
        assert client.backoff_s(UNREACHABLE) == 0


@with_server
async def test_a_connect_that_no_one_answers_ends_in_time(simulation: Simulation, server: RemotingServer) -> None:
    with simulation.network.partition("127.0.0.1", "10.0.0.1"):
        async with RemotingClient() as client:
            with pytest.raises(ConnectFailed, match=r"no answer in 3\.0 s"):
                await client.connect(SERVER)
    assert simulation.loop.time() == pytest.approx(CONNECT_TIMEOUT_S)


@with_server
async def test_a_caller_that_joins_a_dial_waits_no_longer_than_its_own_time(
    simulation: Simulation, server: RemotingServer
) -> None:
    async def impatient() -> None:
        with pytest.raises(ConnectFailed, match=r"no answer in 0\.5 s"):
            await client.connect(SERVER, timeout_s=0.5)
        assert simulation.loop.time() == pytest.approx(0.5)

    async with RemotingClient() as client:
        with simulation.network.partition("127.0.0.1", "10.0.0.1"), anyio.move_on_after(1):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.connect, SERVER)
                tasks.start_soon(impatient)


@with_server
async def test_after_a_cancelled_dial_one_of_those_who_joined_it_dials_for_all_of_them(
    simulation: Simulation, server: RemotingServer
) -> None:
    joined: list[Connection] = []

    async def join() -> None:
        joined.append(await client.connect(SERVER))

    async with RemotingClient() as client:
        async with anyio.create_task_group() as tasks:
            with simulation.network.partition("127.0.0.1", "10.0.0.1"), anyio.move_on_after(1) as scope:
                tasks.start_soon(join)
                tasks.start_soon(join)
                await client.connect(SERVER)
        assert scope.cancelled_caught
        assert [client.connected(SERVER)] * 2 == joined


@with_server
async def test_who_joined_a_dial_that_was_cancelled_waits_no_longer_than_its_own_time(
    simulation: Simulation, server: RemotingServer
) -> None:
    async def join() -> None:
        with pytest.raises(ConnectFailed, match=r"no answer in 2\.0 s"):
            await client.connect(SERVER, timeout_s=3.0)
        assert simulation.loop.time() == pytest.approx(3)

    async with RemotingClient() as client:
        with simulation.network.partition("127.0.0.1", "10.0.0.1"):
            async with anyio.create_task_group() as tasks:
                with anyio.move_on_after(1):
                    tasks.start_soon(join)
                    await client.connect(SERVER)
                assert client.backoff_s(SERVER) == 0  # nobody said that the server is away


@with_server
async def test_a_login_that_its_caller_gave_up_says_nothing_about_the_server(
    simulation: Simulation, server: RemotingServer
) -> None:
    async with RemotingClient(key=Key("alice", bytes(32))) as client:
        with pytest.MonkeyPatch.context() as patch, anyio.move_on_after(1) as scope:
            patch.setattr("remoting.client.log_in", lambda *_: anyio.sleep(5))
            await client.connect(SERVER)
        assert scope.cancelled_caught
        assert client.backoff_s(SERVER) == 0


@with_server
async def test_an_address_that_is_none_is_the_callers_mistake(simulation: Simulation, server: RemotingServer) -> None:
    async with RemotingClient() as client:
        for _ in range(2):
            with pytest.raises(ConfigError, match="write host:port"):
                await client.connect("nonsense")


# --- losing ----------------------------------------------------------------------------------------------------------


@with_server
async def test_a_lost_connection_is_reported_once_fails_what_waits_and_is_recreated(
    simulation: Simulation, server: RemotingServer
) -> None:
    lost: list[str] = []
    async with RemotingClient(on_lost=lost.append) as client:
        await client.connect(SERVER)
        simulation.network.stall("10.0.0.1")
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(ConnectionLost):
                    await client.request(SERVER, STATE)

            tasks.start_soon(ask)
            await anyio.sleep(0.1)
            assert simulation.network.cut("127.0.0.1", "10.0.0.1") == 1
        assert lost == [SERVER]
        assert client.connected(SERVER) is None
        simulation.network.heal()
        await client.request(SERVER, STATE)
    assert lost == [SERVER]


@with_server
async def test_a_connection_that_was_dropped_on_purpose_is_not_reported_as_lost(
    simulation: Simulation, server: RemotingServer
) -> None:
    lost: list[str] = []
    async with RemotingClient(on_lost=lost.append) as client:
        await client.connect(SERVER)
        client.drop(SERVER)
        client.drop(SERVER)
        await anyio.sleep(1)
        assert server.connections == ()
        await client.connect(SERVER)
    assert lost == []


@with_server
async def test_a_server_that_reads_nothing_is_not_sent_more_and_that_is_definite(
    simulation: Simulation, server: RemotingServer
) -> None:
    async with RemotingClient() as client:
        connection = await client.connect(SERVER)
        with simulation.network.stall("10.0.0.1"):
            big = connection.request(STATE, {}, b"x" * (2 * WRITE_HIGH_WATER_BYTES), 30.0)
            await anyio.sleep(0.1)
            assert not connection.ready
            with pytest.raises(ConnectFailed, match=r"reads nothing for 1\.0 s; nothing was sent") as caught:
                await client.request(SERVER, STATE, timeout_s=1.0)
            assert caught.value.definite
        assert len((await big).body or b"") == 2 * WRITE_HIGH_WATER_BYTES


@with_server
async def test_a_closed_client_has_no_connections_makes_none_and_may_be_closed_again(
    simulation: Simulation, server: RemotingServer
) -> None:
    client = RemotingClient()
    await client.request(SERVER, STATE)
    await client.aclose()
    await client.aclose()
    with pytest.raises(ConnectFailed, match="the client is closed"):
        await client.request(SERVER, STATE)
    await anyio.sleep(1)
    assert server.connections == ()


@with_server
async def test_a_client_that_is_closed_while_it_dials_keeps_no_connection(
    simulation: Simulation, server: RemotingServer
) -> None:
    async def dial() -> None:
        with pytest.raises(ConnectFailed, match="closed while connecting"):
            await client.connect(SERVER)

    client = RemotingClient()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dial)
        await anyio.sleep(0.000_1)
        await client.aclose()
    await anyio.sleep(1)
    assert server.connections == ()


# --- one-way, both ways ----------------------------------------------------------------------------------------------


@with_server
async def test_a_one_way_request_needs_a_connection_that_is_there(
    simulation: Simulation, server: RemotingServer
) -> None:
    async with RemotingClient() as client:
        assert not client.notify(SERVER, STATE, {})
        await client.connect(SERVER)
        assert client.notify(SERVER, STATE, {})


def test_what_a_server_pushes_reaches_its_handler_and_nonsense_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    pushed: list[tuple[str, Command]] = []
    code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    async def test(simulation: Simulation, server: RemotingServer) -> None:
        handlers = {code: lambda address, command: pushed.append((address, command))}
        async with RemotingClient(handlers) as client:
            await client.request(SERVER, STATE)
            [connection] = server.connections
            connection.notify(4711, {})
            connection.notify(code, {"group": 5})
            connection.notify(code, {"group": "g", "version": 2})
            await anyio.sleep(1)

    with_server(test)()
    assert [(address, command.header) for address, command in pushed] == [(SERVER, {"group": "g", "version": 2})]
    assert "pushed request code 4711" in caplog.text
    assert "field 'group' must be of type str, got 5" in caplog.text


@pytest.mark.parametrize(("address", "epoch"), [("10.0.0.7:10911", 4), ("", 0)])
def test_a_refusal_of_a_replica_brings_the_address_of_its_master_and_the_epoch_if_it_knows_them(
    address: str, epoch: int
) -> None:
    async def main(simulation: Simulation) -> None:
        def refuse(connection: Connection, request: Command) -> Reply:
            raise NotMaster("broker-a is served elsewhere", address, epoch)

        async with serve({STATE: refuse}, SERVER), RemotingClient() as client:
            with pytest.raises(NotMaster, match="served elsewhere") as refused:
                await client.request(SERVER, STATE)
        assert (refused.value.master_address, refused.value.epoch) == (address, epoch)

    run_simulation(main)


def test_a_refusal_with_a_master_of_another_form_is_read_without_it() -> None:
    for header in ({}, {"master_address": 7, "epoch": 4}, {"master_address": "10.0.0.7:1", "epoch": "4"}):
        error = error_of_response(Command(RESPONSE, ResponseCode.NOT_MASTER, 1, {"remark": "no", **header}, None))
        assert isinstance(error, NotMaster)
        assert error.master_address in ("", "10.0.0.7:1")
        assert error.epoch == 0


def test_a_request_that_a_late_server_refuses_is_sent_again_after_a_pause_that_others_share_but_heartbeats_do_not() -> (
    None
):
    asked: list[tuple[float, int]] = []

    async def main(simulation: Simulation) -> None:
        def busy_at_first(connection: Connection, request: Command) -> Reply:
            asked.append((simulation.loop.time(), request.code))
            if len(asked) == 1:
                error = SystemBusy("more requests wait here than can be served")
                error.retry_after_s = 0.5
                raise error
            return Reply({})

        with simulation.on_host("10.0.0.1"):
            running = serve(dict.fromkeys((STATE, RequestCode.HEART_BEAT), busy_at_first), SERVER)
        async with running, RemotingClient(rng=random.Random(1)) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, SERVER, STATE)
            await anyio.sleep(0.1)
            tasks.start_soon(client.request, SERVER, STATE)
            tasks.start_soon(client.request, SERVER, RequestCode.HEART_BEAT)
            with pytest.raises(SystemBusy, match="nothing was sent"):
                await client.request(SERVER, STATE, timeout_s=0.2)

    run_simulation(main)
    (_, first), (soon, heartbeat), *again = asked
    assert (first, heartbeat) == (STATE, RequestCode.HEART_BEAT)
    assert soon < 0.2
    assert [code for _, code in again] == [STATE, STATE]
    assert 0.5 < again[0][0] < again[1][0] < 0.9


def test_a_key_is_of_no_use_to_servers_of_another_dialect() -> None:
    with pytest.raises(ConfigError, match="leave it out with another dialect"):
        RemotingClient(key=Key("alice", bytes(32)), codec_of=OutwardDialect().codec)
