from __future__ import annotations

from pathlib import Path
from random import Random

import anyio
import msgpack
import pytest

from client.admin.admin import Admin
from client.admin.requests import ClusterRequests, fail, list_names, masters_of, unpack, unpack_group, unpack_route
from model.errors import (
    ConnectFailed,
    ConnectionLost,
    GroupNotExist,
    NotMaster,
    RequestTimeout,
    RlabError,
    ServiceNotAvailable,
    TopicNotExist,
)
from model.limits import REQUEST_TIMEOUT_S
from model.replica_limits import MASTER_CONNECT_S
from model.replica_set import Elect
from model.topic_route import BrokerData, TopicRoute
from remoting.command import RESPONSE, Command
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.replica_places import following
from tests.unit.client.admin.admin_cluster import administer


def response(body: object) -> Command:
    return Command(RESPONSE, 0, 1, {}, msgpack.packb(body))


@pytest.mark.simulation
def test_servers_are_asked_at_the_same_time_and_answer_in_the_order_given(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        requests = ClusterRequests(cluster.addresses, REQUEST_TIMEOUT_S, Random(1))
        masters = await requests.masters()
        started = cluster.simulation.loop.time()
        with cluster.simulation.network.stall("broker-a"), cluster.simulation.network.stall("broker-c"):
            answers = await requests.ask(masters, RequestCode.GET_SERVER_STATE, {})
            assert cluster.simulation.loop.time() - started == pytest.approx(REQUEST_TIMEOUT_S, abs=0.1)
        assert list(answers) == ["broker-a", "broker-b", "broker-c"]
        assert isinstance(answers["broker-a"], RlabError)
        assert isinstance(answers["broker-b"], Command)
        assert answers["broker-b"].header["name"] == "broker-b"
        await requests.remoting.aclose()

    administer(scenario, tmp_path, brokers=3)


@pytest.mark.simulation
def test_a_replica_that_does_not_serve_leads_to_the_master_and_two_that_name_each_other_to_an_error(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        requests = ClusterRequests(cluster.addresses, REQUEST_TIMEOUT_S, Random(1))
        master = cluster.brokers["broker-a"].address
        async with (
            following(cluster, "broker-b", "host-2", master=master, epoch=3, replica_id=2),
            following(cluster, "broker-b", "host-3", master="host-2:10911", epoch=2, replica_id=3),
            following(cluster, "broker-b", "host-4", master="host-5:10911", epoch=3, replica_id=4),
            following(cluster, "broker-b", "host-5", master="host-4:10911", epoch=3, replica_id=5),
        ):
            answer = await requests.request("host-3:10911", RequestCode.GET_BROKER_RUNTIME_INFO)
            assert unpack(answer)["name"] == "broker-a"
            with pytest.raises(NotMaster, match="host-5 is not the master"):
                await requests.request("host-4:10911", RequestCode.GET_BROKER_RUNTIME_INFO)
        await requests.remoting.aclose()

    administer(scenario, tmp_path, brokers=1)


@pytest.mark.simulation
def test_a_broker_that_moved_is_asked_at_its_new_address_and_by_its_address_alone_it_is_not(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        requests = ClusterRequests(cluster.addresses, REQUEST_TIMEOUT_S, Random(1))
        code, old = RequestCode.GET_BROKER_RUNTIME_INFO, "gone:10911"
        answer = await requests.request(old, code, broker="broker-a")  # certainly not done at the old one
        assert unpack(answer)["name"] == "broker-a"
        with pytest.raises(ConnectFailed):
            await requests.request(old, code)
        await requests.remoting.aclose()

    administer(scenario, tmp_path, brokers=1)


@pytest.mark.simulation
def test_a_request_to_a_set_that_may_have_been_done_is_recreated_only_if_that_does_no_harm(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        requests = ClusterRequests(cluster.addresses, REQUEST_TIMEOUT_S, Random(1))
        code, address = RequestCode.GET_BROKER_RUNTIME_INFO, cluster.brokers["broker-a"].address
        host = address.rpartition(":")[0]
        cluster.simulation.network.set_latency("operator", host, 0.1)

        async def cut() -> None:
            await anyio.sleep(0.05)  # the request is under way
            cluster.simulation.network.cut("operator", host)

        for repeats in (True, False):
            await requests.request(address, code)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cut)
                if repeats:
                    answer = await requests.request(address, code, broker="broker-a")
                    assert unpack(answer)["name"] == "broker-a"
                else:
                    with pytest.raises(ConnectionLost):
                        await requests.request(address, code, broker="broker-a", repeats=False)
        await requests.remoting.aclose()

    administer(scenario, tmp_path, brokers=1, copies=2)


@pytest.mark.simulation
def test_operators_wait_a_moment_for_the_next_master_of_a_set_and_once_for_one_that_has_none(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        requests = ClusterRequests(cluster.addresses, REQUEST_TIMEOUT_S, Random(1))
        await cluster.brokers["broker-a"].crash()
        for waited_s in (MASTER_CONNECT_S, 0.0):
            began = anyio.current_time()
            with pytest.raises(ServiceNotAvailable):
                await requests.masters()
            assert anyio.current_time() - began == pytest.approx(waited_s, abs=0.2)
        await requests.remoting.aclose()

    administer(scenario, tmp_path, brokers=1, copies=2, set_options={"elect": Elect.OPERATOR})


def test_an_error_is_raised_when_its_body_is_wanted() -> None:
    assert unpack(response([1, {2: 3}])) == [1, {2: 3}]
    with pytest.raises(GroupNotExist):
        unpack(GroupNotExist("no"))


def test_a_broker_that_does_not_know_a_group_says_nothing_about_it() -> None:
    assert unpack_group(response([1])) == [1]
    assert unpack_group(GroupNotExist("no")) is None
    with pytest.raises(RequestTimeout):
        unpack_group(RequestTimeout("late"))


def test_a_refused_route_is_not_a_route() -> None:
    route = TopicRoute(topic="t", queues=(), brokers=())
    assert unpack_route(response(route.to_wire())) == route
    assert unpack_route(TopicNotExist("no")) is None


def test_brokers_without_a_master_are_left_out() -> None:
    brokers = [
        BrokerData(cluster="c", broker_name="b", addresses={0: "b:1", 1: "b:2"}),
        BrokerData(cluster="c", broker_name="a", addresses={0: "a:1"}),
        BrokerData(cluster="c", broker_name="away", addresses={1: "away:2"}),
    ]
    assert list(masters_of(brokers).items()) == [("a", "a:1"), ("b", "b:1")]


def test_an_error_is_raised_again_as_what_it_was_with_its_place_in_front() -> None:
    with pytest.raises(ConnectFailed, match=r"^broker a: refused$") as caught:
        fail("broker a", ConnectFailed("refused"))
    assert isinstance(caught.value.__cause__, ConnectFailed)


def test_a_list_of_names_stays_short() -> None:
    assert list_names("groups", []) == "there are no groups"
    assert list_names("groups", ["a", "b"]) == "groups: a, b"
    assert list_names("groups", map(str, range(12))) == "groups: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
