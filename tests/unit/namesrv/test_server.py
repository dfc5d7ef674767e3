"""What ends a registration without a goodbye, and how a name server starts and stops, in virtual time."""

from __future__ import annotations

import anyio
import pytest

from model.errors import ConfigError, ConnectionLost
from model.limits import LINES_AT_ONCE
from namesrv.config import NameServerConfig
from namesrv.server import NameServer, run_name_server
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.namesrv.registrations import broker, wire

CONFIG = NameServerConfig(listen="10.0.0.1:9876")


async def register(client: RemotingClient, server: NameServer, expiry_s: float = 120.0) -> None:
    await client.request(
        server.address, RequestCode.REGISTER_BROKER, *wire(broker("broker-a", "orders", expiry_s=expiry_s))
    )


def test_a_broker_whose_connection_closes_is_gone_at_once() -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG) as server:
            async with RemotingClient() as client:
                await register(client, server)
                assert server.table.topics() == ["orders"]
            await anyio.sleep(0.01)
            assert server.table.topics() == []

    run_simulation(main)


def test_a_silent_broker_expires_on_time_and_its_connection_is_cut_so_that_it_notices() -> None:
    lost: list[float] = []

    async def main(simulation: Simulation) -> None:
        def on_lost(address: str) -> None:
            lost.append(simulation.loop.time())

        async with run_name_server(CONFIG) as server, RemotingClient(on_lost=on_lost) as client:
            await register(client, server, expiry_s=10)
            await anyio.sleep_until(9)
            await register(client, server, expiry_s=10)
            await anyio.sleep_until(18.9)
            assert server.table.topics() == ["orders"]
            await anyio.sleep_until(19.1)
            assert server.table.topics() == []

    run_simulation(main)
    assert lost == [pytest.approx(19, abs=0.01)]


def test_a_broker_with_a_shorter_expiry_than_those_before_it_expires_on_time_too() -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG) as server, RemotingClient() as slow, RemotingClient() as quick:
            await register(slow, server, expiry_s=120)
            registration = broker("broker-b", "quick", expiry_s=5)
            await quick.request(server.address, RequestCode.REGISTER_BROKER, *wire(registration))
            await anyio.sleep(5.1)
            assert server.table.topics() == ["orders"]

    run_simulation(main)


def test_it_calls_itself_by_its_address_unless_it_has_a_name() -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(NameServerConfig(listen="10.0.0.1:0")) as server, RemotingClient() as client:
            state = await client.request(server.address, RequestCode.GET_SERVER_STATE)
            assert state.header["name"] == server.address != "10.0.0.1:0"

    run_simulation(main)


def test_a_port_in_use_is_a_config_error() -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG), run_name_server(CONFIG):
            pass

    with pytest.raises(ConfigError, match=r"cannot listen on 10\.0\.0\.1:9876"):
        run_simulation(main)


def test_the_error_of_the_block_comes_out_as_itself() -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG):
            raise KeyError("of the block")

    with pytest.raises(KeyError):
        run_simulation(main)


def test_connections_beyond_the_limit_are_turned_away() -> None:
    async def main(_: Simulation) -> None:
        config = NameServerConfig(listen="10.0.0.1:9876", max_connections=1)
        async with run_name_server(config) as server, RemotingClient() as first, RemotingClient() as second:
            await first.request(server.address, RequestCode.GET_SERVER_STATE)
            with pytest.raises(ConnectionLost, match="1 connections already"):
                await second.request(server.address, RequestCode.GET_SERVER_STATE)

    run_simulation(main)


def test_it_stops_with_brokers_connected_and_starts_again_on_the_same_port() -> None:
    async def main(_: Simulation) -> None:
        async with RemotingClient() as client:
            for run in range(2):
                async with run_name_server(CONFIG) as server:
                    await register(client, server)
                await anyio.sleep(0.01)
                assert client.connected(server.address) is None, run

    run_simulation(main)


@pytest.mark.parametrize(("after_s", "reason"), [(0.0, "closed its connection"), (200.0, "was silent for too long")])
def test_a_lost_broker_is_logged_with_the_reason(after_s: float, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG) as server:
            async with RemotingClient() as client:
                await register(client, server)
                await anyio.sleep(after_s)
            await anyio.sleep(1)

    run_simulation(main)
    assert [record.getMessage() for record in caplog.records if record.name == "namesrv.server"] == [
        f"broker broker-a id 0 at broker-a-0:10911 {reason}, 1 routes changed"
    ]


def test_a_broker_that_registers_and_hangs_up_all_the_time_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG) as server:
            for _number in range(2 * LINES_AT_ONCE):
                async with RemotingClient() as client:
                    await register(client, server)

    run_simulation(main)
    assert sum(record.name == "namesrv.server" for record in caplog.records) == LINES_AT_ONCE
