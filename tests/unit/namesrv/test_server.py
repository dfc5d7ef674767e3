"""What ends a registration without unregistering, and how a name server starts and stops, in virtual time."""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest

from model.errors import ConfigError, ConnectionLost, ServiceNotAvailable, TopicNotExist
from model.limits import LINES_AT_ONCE
from model.replica_limits import MASTER_KEPT_S, MAX_NOTICE_TOPICS, ROUTE_NOTICE_WINDOW_S
from namesrv.config import NameServerConfig
from namesrv.registration import BrokerRegistration
from namesrv.server import NameServer, run_name_server
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.security.policy import NamePatterns, Policy, Rights
from testbed.simulation.cluster.access import derived_key, derived_user
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.namesrv.registrations import broker, topic, wire

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
            with pytest.raises(ConnectionLost, match="as many connections as it may: 1"):
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


# --- notifications of changed routes ---------------------------------------------------------------------------------


class Notified:
    """A client that asks for routes with `notify`, and records the notifications with their times."""

    def __init__(self, simulation: Simulation, key: Key | None = None) -> None:
        self.got: list[tuple[float, list[str] | None]] = []
        self._now = simulation.loop.time
        self.remoting = RemotingClient({RequestCode.NOTIFY_ROUTE_CHANGED: self._notified}, key=key)

    def _notified(self, address: str, command: Command) -> None:
        self.got.append((self._now(), command.header.get("topics")))

    async def watch(self, server: NameServer, *topics: str) -> None:
        for name in topics:
            with suppress(ServiceNotAvailable, TopicNotExist):
                header = {"topic": name, "notify": True}
                await self.remoting.request(server.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)


async def register_at(server: NameServer, client: RemotingClient, registration: BrokerRegistration) -> None:
    await client.request(server.address, RequestCode.REGISTER_BROKER, *wire(registration))


def test_a_client_is_notified_of_each_kind_of_change_of_a_route_that_it_has_asked_for() -> None:
    async def main(simulation: Simulation) -> None:
        async with run_name_server(CONFIG) as server, RemotingClient() as admin:
            client = Notified(simulation)
            await client.watch(server, "orders")  # which does not exist yet

            async def seen(topics: list[str] | None) -> None:
                await anyio.sleep(2 * ROUTE_NOTICE_WINDOW_S)
                assert [names for _, names in client.got] == [topics]
                client.got.clear()

            async with RemotingClient() as broker_a:
                await register_at(server, broker_a, broker("broker-a", "orders", "other"))
                await seen(["orders"])
                await register_at(server, broker_a, broker("broker-a", topic("orders", 8, 8), "other", version=2))
                await seen(["orders"])
                header: dict[str, object] = {"broker_name": "broker-a"}
                await admin.request(server.address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
                await seen(["orders"])
                await admin.request(server.address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
                await seen(["orders"])
                await register_at(server, broker_a, broker("broker-a", "orders", version=3))
                await seen(["orders"])
            await seen(["orders"])  # its connection has closed
            async with RemotingClient() as broker_b:
                await register_at(server, broker_b, broker("broker-b", "orders", expiry_s=10.0))
                await seen(["orders"])
                await anyio.sleep(10)
                await seen(["orders"])  # it was silent
                await register_at(server, broker_b, broker("broker-b", "orders"))
                client.got.clear()
                goodbye = {"broker_name": "broker-b", "broker_id": 0, "address": "broker-b-0:10911"}
                await broker_b.request(server.address, RequestCode.UNREGISTER_BROKER, goodbye)
                await seen(["orders"])
            await client.remoting.aclose()

    run_simulation(main)


def test_a_client_that_did_not_ask_for_notifications_or_asks_for_another_topic_gets_none() -> None:
    async def main(simulation: Simulation) -> None:
        async with run_name_server(CONFIG) as server, RemotingClient() as broker_a:
            other, plain = Notified(simulation), Notified(simulation)
            await other.watch(server, "other")
            with suppress(ServiceNotAvailable):
                await plain.remoting.request(server.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
            await register_at(server, broker_a, broker("broker-a", "orders"))
            await anyio.sleep(1)
            assert (other.got, plain.got) == ([], [])
            await other.remoting.aclose()
            await plain.remoting.aclose()

    run_simulation(main)


def test_many_changes_in_a_short_time_are_few_notifications_and_the_last_change_is_in_one() -> None:
    async def main(simulation: Simulation) -> None:
        async with run_name_server(CONFIG) as server, RemotingClient() as broker_a:
            client = Notified(simulation)
            topics = [f"t{n}" for n in range(2 * MAX_NOTICE_TOPICS)]
            await client.watch(server, *topics)
            began = simulation.loop.time()
            for n in range(1, len(topics) + 1):
                await register_at(server, broker_a, broker("broker-a", *topics[:n], version=n))
                await anyio.sleep(0.02)
            took_s = simulation.loop.time() - began
            await anyio.sleep(1)
            assert len(client.got) <= took_s / ROUTE_NOTICE_WINDOW_S + 2
            assert client.got[0][1] == ["t0"]
            assert topics[-1] in (client.got[-1][1] or topics)
            await register_at(server, broker_a, broker("broker-a", version=1_000))
            await anyio.sleep(1)
            assert client.got[-1][1] is None  # all of them are more than one notification names
            await client.remoting.aclose()

    run_simulation(main)


def test_a_user_is_notified_of_no_topic_that_it_may_not_know_any_more() -> None:
    def policy(*topics: str) -> Policy:
        reader = derived_user("reader", Rights(consume=NamePatterns(topics)))
        return {"reader": reader, "broker-a": derived_user("broker-a", Rights(brokers=NamePatterns(["*"])))}

    async def main(simulation: Simulation) -> None:
        config = NameServerConfig(listen="10.0.0.1:9876", access=policy("orders", "secret"))
        async with run_name_server(config) as server, RemotingClient(key=derived_key("broker-a")) as broker_a:
            client = Notified(simulation, derived_key("reader"))
            await client.watch(server, "orders", "secret")
            assert server.server.gate is not None
            server.server.gate.apply(policy("orders"))
            await register_at(server, broker_a, broker("broker-a", "orders", "secret"))
            await anyio.sleep(1)
            await register_at(server, broker_a, broker("broker-a", "orders", topic("secret", 8, 8), version=2))
            await anyio.sleep(1)
            assert [names for _, names in client.got] == [["orders"]]
            await client.remoting.aclose()

    run_simulation(main)


def test_a_master_without_a_successor_is_logged_when_routes_stop_listing_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: Simulation) -> None:
        async with run_name_server(CONFIG) as server, RemotingClient() as replica:
            await register_at(server, replica, broker("a", broker_id=2, address="h2:1", set_id=5))
            async with RemotingClient() as master:
                await register_at(server, master, broker("a", "orders", address="h1:1", set_id=5, epoch=1))
            await anyio.sleep(MASTER_KEPT_S + 1)

    run_simulation(main)
    assert [record.getMessage() for record in caplog.records if record.name == "namesrv.server"][:2] == [
        "broker a id 0 at h1:1 closed its connection, 0 routes changed",
        "broker a id 0 at h1:1 has had no successor for too long: routes list its replicas instead, 1 routes changed",
    ]
