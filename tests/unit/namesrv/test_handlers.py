"""Each request code of a name server, over the wire, in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgpack
import pytest

from model.absent_broker import AbsentBroker
from model.errors import InvalidParameter, NotMaster, ServiceNotAvailable, StaleRegistration, TopicNotExist
from model.limits import LINES_AT_ONCE, NAME_SERVER_STARTING_S
from model.topic_route import READ_WRITE, Perm, TopicRoute
from namesrv.config import NameServerConfig
from namesrv.election_handlers import ElectionHandlers
from namesrv.handlers import NameServerHandlers
from namesrv.registration import BrokerRegistration
from namesrv.route_table import RouteTable
from namesrv.route_watchers import RouteWatchers
from namesrv.server import run_name_server
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.namesrv.registrations import broker, topic, wire

ADDRESS = "10.0.0.1:9876"


class Caller:
    """A connection to the name server, with one method per thing that is asked here."""

    def __init__(self, client: RemotingClient) -> None:
        self.client = client

    async def register(self, registration: BrokerRegistration) -> bool:
        answer = await self.client.request(ADDRESS, RequestCode.REGISTER_BROKER, *wire(registration))
        return bool(answer.header["changed"])

    async def route(self, topic: str) -> TopicRoute:
        answer = await self.client.request(ADDRESS, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return TopicRoute.from_wire(msgpack.unpackb(answer.body or b""))

    async def absent(self, topic: str | None = None) -> list[AbsentBroker]:
        answer = await self.client.request(ADDRESS, RequestCode.GET_ABSENT_BROKERS, {"topic": topic} if topic else {})
        return absent_in(answer)

    async def topics(self) -> object:
        answer = await self.client.request(ADDRESS, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return msgpack.unpackb(answer.body or b"")

    async def permission(self, code: RequestCode, broker_name: str) -> int:
        return int((await self.client.request(ADDRESS, code, {"broker_name": broker_name})).header["n"])


def absent_in(answer: Command) -> list[AbsentBroker]:
    rows: Any = msgpack.unpackb(answer.body or b"")
    return [AbsentBroker.from_wire(row) for row in rows]


Scenario = Callable[[Caller], Awaitable[None]]


def asked(scenario: Scenario) -> Callable[[], None]:
    """Run an async test in virtual time against a name server of its own."""

    async def main(_: Simulation) -> None:
        async with run_name_server(NameServerConfig(listen=ADDRESS, name="ns-1")), RemotingClient() as client:
            await scenario(Caller(client))

    def run() -> None:
        run_simulation(main)

    run.__name__ = scenario.__name__
    return run


@pytest.mark.walk
def test_every_request_that_names_a_name_server_as_its_receiver_has_a_handler() -> None:
    async def main(_: Simulation) -> None:
        handlers = NameServerHandlers(
            RouteTable(), RouteWatchers(), name=lambda: "", connection=lambda _: None
        ).by_code()
        assert {*handlers, *ElectionHandlers(None).by_code()} == {
            code for code, schema in SCHEMA.items() if schema.sender.endswith(("name server", "any server"))
        }

    run_simulation(main)


@asked
async def test_a_registered_topic_has_a_route_and_an_unknown_one_an_error(caller: Caller) -> None:
    assert await caller.register(broker("broker-a", topic("orders", 8, 4)))
    assert not await caller.register(broker("broker-a", topic("orders", 8, 4)))
    route = await caller.route("orders")
    assert (len(route.subscribe_queues()), len(route.publish_queues())) == (8, 4)
    assert route.brokers[0].master == "broker-a-0:10911"
    await anyio.sleep(NAME_SERVER_STARTING_S)
    with pytest.raises(TopicNotExist, match="no broker registered here serves topic 'other'"):
        await caller.route("other")


@asked
async def test_a_name_server_that_has_just_started_says_of_no_topic_that_it_does_not_exist(caller: Caller) -> None:
    for _ in range(49):  # before any broker has come, and after the first of them
        with pytest.raises(ServiceNotAvailable, match="'orders' is not known yet: this name server started"):
            await caller.route("orders")
        await anyio.sleep(0.1)
        await caller.register(broker("broker-a", "other"))
    await caller.register(broker("broker-b", "orders"))
    assert (await caller.route("orders")).brokers[0].broker_name == "broker-b"


@asked
async def test_in_a_cluster_of_new_member_no_topic_can_be_missing_from_the_start_on(caller: Caller) -> None:
    await caller.register(broker("broker-a", newcomer=True))
    await caller.register(broker("broker-a", "orders", version=2))
    with pytest.raises(TopicNotExist):
        await caller.route("other")
    await caller.register(broker("broker-b"))
    with pytest.raises(ServiceNotAvailable):
        await caller.route("other")


@asked
async def test_what_is_wrong_with_a_registration_is_reported_to_the_broker(caller: Caller) -> None:
    await caller.register(broker("broker-a", version=2))
    with pytest.raises(StaleRegistration):
        await caller.register(broker("broker-a", version=1))
    with pytest.raises(InvalidParameter, match="broker name 'broker a'"):
        await caller.register(broker("broker a"))
    header, _ = wire(broker("broker-b"))
    with pytest.raises(InvalidParameter, match=r"REGISTER_BROKER: the body must be an array of .*: it is not msgpack"):
        await caller.client.request(ADDRESS, RequestCode.REGISTER_BROKER, header, b"\xc1")
    for expiry_ms in (0, 24 * 3600 * 1000 + 1):
        fields = {**header, "expiry_ms": expiry_ms}
        with pytest.raises(InvalidParameter, match="field 'expiry_ms' must be 1 to 86400000"):
            await caller.client.request(ADDRESS, RequestCode.REGISTER_BROKER, fields, b"\x90")
    longest = {**header, "expiry_ms": 24 * 3600 * 1000}
    assert (await caller.client.request(ADDRESS, RequestCode.REGISTER_BROKER, longest, b"\x90")).code == 0


@asked
async def test_a_broker_says_goodbye(caller: Caller) -> None:
    await caller.register(broker("broker-a", "orders"))
    header = {"broker_name": "broker-a", "broker_id": 0, "address": "broker-a-0:10911"}
    for _ in range(2):
        await caller.client.request(ADDRESS, RequestCode.UNREGISTER_BROKER, header)
        assert await caller.topics() == []
    with pytest.raises(InvalidParameter, match="'nonsense' is not an address"):
        await caller.client.request(ADDRESS, RequestCode.UNREGISTER_BROKER, {**header, "address": "nonsense"})


@asked
async def test_a_broker_that_leaves_without_unregistering_is_remembered_until_it_returns(caller: Caller) -> None:
    await caller.register(broker("broker-b", topic("orders", 8, 4), "other"))
    assert await caller.absent() == []
    async with RemotingClient() as killed:
        await killed.request(
            ADDRESS, RequestCode.REGISTER_BROKER, *wire(broker("broker-a", topic("orders", 8, 4), "t"))
        )
    await anyio.sleep(60)
    [away] = await caller.absent()
    assert (away.broker_name, away.address, away.reason) == ("broker-a", "broker-a-0:10911", "closed its connection")
    assert away.away_s == pytest.approx(60, abs=0.1)
    assert away.topics == (topic("orders", 8, 4), topic("t"))
    assert [each.topics for each in await caller.absent("orders")] == [(topic("orders", 8, 4),)]
    assert await caller.absent("other") == []
    assert [data.broker_name for data in (await caller.route("orders")).brokers] == ["broker-b"]
    await caller.client.request(ADDRESS, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "t"})
    assert [each.topics for each in await caller.absent()] == [(topic("orders", 8, 4),)]
    await caller.register(broker("broker-a", topic("orders", 8, 4), version=2))
    assert await caller.absent() == []


@asked
async def test_a_silent_broker_and_one_whose_address_another_took_are_absent_too(caller: Caller) -> None:
    await caller.register(broker("broker-a", "orders", expiry_s=10))
    await caller.register(broker("broker-b", "orders", address="b:1"))
    await caller.register(broker("broker-c", "orders", address="b:1"))
    assert [(each.broker_name, each.reason) for each in await caller.absent()] == [
        ("broker-b", "lost its address to another broker")
    ]
    await anyio.sleep(11)
    async with RemotingClient() as another:  # the silent broker's connection, which is that of the others, was cut
        answer = await another.request(ADDRESS, RequestCode.GET_ABSENT_BROKERS)
    reasons = {each.broker_name: each.reason for each in absent_in(answer)}
    assert reasons["broker-a"] == "was silent for too long"


@asked
async def test_an_absent_broker_is_forgotten_on_request_and_by_its_own_goodbye(caller: Caller) -> None:
    for name in ("broker-a", "broker-b"):
        async with RemotingClient() as killed:
            await killed.request(ADDRESS, RequestCode.REGISTER_BROKER, *wire(broker(name)))
    await anyio.sleep(1)
    goodbye = {"broker_name": "broker-a", "broker_id": 0, "address": "elsewhere:1"}
    await caller.client.request(ADDRESS, RequestCode.UNREGISTER_BROKER, goodbye)
    assert [each.broker_name for each in await caller.absent()] == ["broker-a", "broker-b"]
    goodbye["address"] = "broker-a-0:10911"
    await caller.client.request(ADDRESS, RequestCode.UNREGISTER_BROKER, goodbye)
    assert [each.broker_name for each in await caller.absent()] == ["broker-b"]
    for n in (1, 0):
        answer = await caller.client.request(ADDRESS, RequestCode.FORGET_BROKER, {"broker_name": "broker-b"})
        assert answer.header["n"] == n
    with pytest.raises(InvalidParameter, match="broker name"):
        await caller.client.request(ADDRESS, RequestCode.FORGET_BROKER, {"broker_name": "broker b"})
    assert await caller.absent() == []


@asked
async def test_brokers_and_topics_are_listed_in_order(caller: Caller) -> None:
    await caller.register(broker("broker-b", "orders", "a"))
    await caller.register(broker("broker-a", broker_id=1))
    await caller.register(broker("broker-a", broker_id=0))
    answer = await caller.client.request(ADDRESS, RequestCode.GET_BROKER_CLUSTER_INFO)
    assert msgpack.unpackb(answer.body or b"") == [
        ["lab", "broker-a", [[0, "broker-a-0:10911"], [1, "broker-a-1:10911"]]],
        ["lab", "broker-b", [[0, "broker-b-0:10911"]]],
    ]
    assert await caller.topics() == ["a", "orders"]


@asked
async def test_write_permission_is_wiped_and_given_back(caller: Caller) -> None:
    await caller.register(broker("broker-a", "orders", "other"))
    assert await caller.permission(RequestCode.WIPE_WRITE_PERM_OF_BROKER, "broker-a") == 2
    assert (await caller.route("orders")).queues[0].perm == Perm.READ
    assert await caller.permission(RequestCode.ADD_WRITE_PERM_OF_BROKER, "broker-a") == 2
    assert (await caller.route("orders")).queues[0].perm == READ_WRITE
    with pytest.raises(InvalidParameter, match="no broker named 'broker-x'"):
        await caller.permission(RequestCode.WIPE_WRITE_PERM_OF_BROKER, "broker-x")


@asked
async def test_a_topic_is_deleted_and_deleting_it_again_does_no_harm(caller: Caller) -> None:
    await caller.register(broker("broker-a", "orders", "other"))
    for _ in range(2):
        await caller.client.request(ADDRESS, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
        assert await caller.topics() == ["other"]


@asked
async def test_health_is_who_and_for_how_long(caller: Caller) -> None:
    await anyio.sleep(60)
    header = (await caller.client.request(ADDRESS, RequestCode.GET_SERVER_STATE)).header
    assert (header["kind"], header["name"]) == ("namesrv", "ns-1")
    assert header["uptime_s"] == pytest.approx(60, abs=0.1)


@asked
async def test_who_has_all_routes_of_a_version_is_reported_that_none_has_changed(caller: Caller) -> None:
    async def ask(**known: int) -> tuple[dict[str, object], bool]:
        header = {"topic": "t", **known}
        answer = await caller.client.request(ADDRESS, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        return answer.header, answer.body is not None

    await caller.register(broker("broker-a", "t"))
    (first, has_route) = await ask()
    version = first["version"]
    assert has_route
    assert isinstance(version, int)
    assert await ask(known_version=version) == ({"version": version, "unchanged": True}, False)
    await caller.register(broker("broker-a", "t", "other", version=2))
    assert await ask(known_version=version) == ({"version": version + 1}, True), "any topic counts"


def test_comings_and_moves_of_brokers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(caller: Caller) -> None:
        await caller.register(broker("broker-a", "orders", address="old:1"))
        await caller.register(broker("broker-a", "orders", address="old:1"))
        await caller.register(broker("broker-a", "orders", address="new:1"))

    with caplog.at_level("INFO", logger="namesrv.handlers"):
        asked(scenario)()
    assert [record.getMessage() for record in caplog.records if record.name == "namesrv.handlers"] == [
        "broker broker-a id 0 at old:1 registered version 1, 1 routes changed, cause none",
        "broker broker-a id 0 moved from old:1 to new:1: if both run, they need two names",
    ]


def test_a_broker_that_moves_or_comes_and_goes_all_the_time_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(caller: Caller) -> None:
        for n in range(3 * LINES_AT_ONCE):
            await caller.register(broker("broker-a", "orders", address=f"old:{n + 1}"))
            await caller.register(broker("broker-b", f"topic-{n}", address="b:1", version=n))

    with caplog.at_level("INFO", logger="namesrv.handlers"):
        asked(scenario)()
    texts = [record.getMessage() for record in caplog.records]
    assert sum(" moved from " in text for text in texts) == LINES_AT_ONCE
    assert sum(" registered version " in text for text in texts) == LINES_AT_ONCE


def test_a_broker_that_is_not_known_is_not_said_to_have_unregistered(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(caller: Caller) -> None:
        header = {"broker_name": "broker-a", "broker_id": 0}
        await caller.register(broker("broker-a", "orders", address="a:1"))
        for address in ("b:1", "a:1", "a:1"):
            await caller.client.request(ADDRESS, RequestCode.UNREGISTER_BROKER, {**header, "address": address})

    with caplog.at_level("INFO", logger="namesrv.handlers"):
        asked(scenario)()
    assert [record.getMessage() for record in caplog.records][1:] == [
        "broker broker-a id 0 at a:1 unregistered, 1 routes changed"
    ]


@asked
async def test_the_list_of_brokers_has_the_replicas_of_a_set_with_their_roles_and_lags(caller: Caller) -> None:
    await caller.register(broker("plain", "orders"))
    master = broker("a", "orders", address="h1:1", set_id=5, epoch=4, replica_id=2, role="master")
    await caller.register(master)
    await caller.register(
        broker("a", broker_id=1, address="h2:1", set_id=5, epoch=3, replica_id=1, role="follower", lag_bytes=77)
    )
    answer = await caller.client.request(ADDRESS, RequestCode.GET_BROKER_CLUSTER_INFO)
    rows: Any = msgpack.unpackb(answer.body or b"")
    assert rows == [["lab", "a", [[0, "h1:1"], [1, "h2:1"]]], ["lab", "plain", [[0, "plain-0:10911"]]]]
    assert answer.header["sets"] == [["a", 5, 4, [[0, 2, "master", 0], [1, 1, "follower", 77]]]]
    [listed, _] = (await caller.route("orders")).brokers
    assert (listed.addresses, listed.set_id, listed.epoch) == ({0: "h1:1"}, 5, 4)


@asked
async def test_a_master_of_a_lower_epoch_gets_the_address_of_the_one_that_serves(caller: Caller) -> None:
    await caller.register(broker("a", "orders", address="h1:1", set_id=5, epoch=4))
    with pytest.raises(NotMaster) as refused:
        await caller.register(broker("a", "orders", address="h2:1", set_id=5, epoch=3))
    assert (refused.value.master_address, refused.value.epoch) == ("h1:1", 4)
    with pytest.raises(InvalidParameter, match="field 'epoch': the master of a set of replicas has one"):
        await caller.register(broker("a", "orders", address="h2:1", set_id=5))
