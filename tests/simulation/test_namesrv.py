"""Two name servers that never talk to each other, and the brokers and clients between them, in virtual time."""

from __future__ import annotations

import anyio
import msgpack
import pytest

from model.errors import RlabError
from model.limits import BROKER_EXPIRY_S, BROKER_REGISTER_INTERVAL_S, ROUTE_POLL_INTERVAL_S
from model.topic_route import TopicRoute
from namesrv.config import NameServerConfig
from namesrv.server import NameServer, run_name_server
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.namesrv.registrations import broker, wire

pytestmark = pytest.mark.simulation

HOSTS = ("10.0.0.1", "10.0.0.2")
ADDRESSES = tuple(f"{host}:9876" for host in HOSTS)


async def broker_that_registers(simulation: Simulation, host: str) -> None:
    """What a broker does for its name servers: register with all of them, on a timer, and again after a failure."""
    registration = broker("broker-a", "orders", address=f"{host}:10911")
    with simulation.on_host(host):
        async with RemotingClient(rng=simulation.random) as client, anyio.create_task_group() as tasks:

            async def keep(address: str) -> None:
                while True:
                    try:
                        await client.request(address, RequestCode.REGISTER_BROKER, *wire(registration))
                        await anyio.sleep(BROKER_REGISTER_INTERVAL_S)
                    except RlabError:
                        await anyio.sleep(1)

            for address in ADDRESSES:
                tasks.start_soon(keep, address)


def known(servers: tuple[NameServer, NameServer]) -> list[bool]:
    return ["orders" in server.table.topics() for server in servers]


def test_name_servers_learn_lose_and_relearn_a_broker_each_on_its_own() -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            run_name_server(NameServerConfig(listen=ADDRESSES[0])) as first,
            run_name_server(NameServerConfig(listen=ADDRESSES[1])) as second,
            anyio.create_task_group() as tasks,
        ):
            servers = (first, second)
            tasks.start_soon(broker_that_registers, simulation, "10.0.0.9")
            await anyio.sleep(1)
            assert known(servers) == [True, True]

            # Cut off from one of them: that one waits for the expiry and not longer, the other never notices.
            partition = simulation.network.partition("10.0.0.9", HOSTS[0])
            await anyio.sleep(BROKER_EXPIRY_S - BROKER_REGISTER_INTERVAL_S - 2)
            assert known(servers) == [True, True]
            await anyio.sleep(BROKER_REGISTER_INTERVAL_S + 2)
            assert known(servers) == [False, True]
            partition.heal()
            await anyio.sleep(BROKER_REGISTER_INTERVAL_S + 10)
            assert known(servers) == [True, True]

            # A reset connection: unregistered at once, and back with the next registration.
            assert simulation.network.cut("10.0.0.9", HOSTS[1]) == 1
            await anyio.sleep(0.01)
            assert known(servers) == [True, False]
            await anyio.sleep(BROKER_REGISTER_INTERVAL_S + 1)
            assert known(servers) == [True, True]
            tasks.cancel_scope.cancel()

    run_simulation(main)


def test_a_name_server_that_restarts_knows_every_broker_again_after_one_registration_interval() -> None:
    async def main(simulation: Simulation) -> None:
        async with anyio.create_task_group() as tasks:
            async with run_name_server(NameServerConfig(listen=ADDRESSES[0])) as server:
                tasks.start_soon(broker_that_registers, simulation, "10.0.0.9")
                await anyio.sleep(10)
                assert server.table.topics() == ["orders"]
            async with run_name_server(NameServerConfig(listen=ADDRESSES[0])) as server:
                assert server.table.topics() == []
                await anyio.sleep(BROKER_REGISTER_INTERVAL_S + 10)
                assert server.table.topics() == ["orders"]
            tasks.cancel_scope.cancel()

    run_simulation(main)


def test_a_hundred_clients_poll_for_ten_minutes_and_all_have_the_new_route_within_one_poll() -> None:
    clients, seen = 100, dict[int, int]()

    async def poll(simulation: Simulation, number: int) -> None:
        with simulation.on_host(f"10.1.0.{number}"):
            async with RemotingClient() as client:
                await anyio.sleep(simulation.random.uniform(0, ROUTE_POLL_INTERVAL_S))
                while True:
                    answer = await client.request(ADDRESSES[0], RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
                    route = TopicRoute.from_wire(msgpack.unpackb(answer.body or b""))
                    seen[number] = len(route.brokers)
                    await anyio.sleep(ROUTE_POLL_INTERVAL_S)

    async def main(simulation: Simulation) -> None:
        async with (
            run_name_server(NameServerConfig(listen=ADDRESSES[0])) as server,
            RemotingClient() as brokers,
            anyio.create_task_group() as tasks,
        ):
            lasting = 10_000.0
            await brokers.request(
                server.address, RequestCode.REGISTER_BROKER, *wire(broker("broker-a", "orders", expiry_s=lasting))
            )
            for number in range(clients):
                tasks.start_soon(poll, simulation, number)
            await anyio.sleep(300)
            assert list(seen.values()) == [1] * clients
            await brokers.request(
                server.address, RequestCode.REGISTER_BROKER, *wire(broker("broker-b", "orders", expiry_s=lasting))
            )
            await anyio.sleep(ROUTE_POLL_INTERVAL_S + 0.1)
            assert list(seen.values()) == [2] * clients
            await anyio.sleep(270)
            tasks.cancel_scope.cancel()

    run_simulation(main)
