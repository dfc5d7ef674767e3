from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.admin.records import GroupInfo
from client.admin.requests import Answer, ClusterRequests
from model.assignment import RequestMode
from model.errors import (
    ConfigError,
    ConnectFailed,
    GroupNotExist,
    IllegalOperation,
    InvalidParameter,
    NetworkError,
    RequestCodeNotSupported,
    ServiceNotAvailable,
    TopicNotExist,
)
from model.heartbeat import ConsumeFrom
from model.limits import REQUEST_TIMEOUT_S
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


def test_brokers_are_listed_with_their_addresses(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        assert [(broker.broker_name, broker.master) for broker in await admin.brokers()] == [
            ("broker-a", "broker-a:10911"),
            ("broker-b", "broker-b:10911"),
        ]

    administer(scenario, tmp_path)


def test_a_broker_reports_its_topics_and_what_their_queues_hold(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2, brokers=["broker-a"])
        await (await cluster.start_producer()).send_many("t", 10)
        info = await admin.broker_info("broker-a")
        topic = info.topic("t")
        assert topic is not None
        assert topic.config.read_queue_nums == 2
        assert sum(held.max_offset - held.min_offset for held in topic.ranges) == 10
        assert (info.name, info.cluster, info.address) == ("broker-a", "DefaultCluster", "broker-a:10911")
        assert info.topic("no-such-topic") is None
        with pytest.raises(InvalidParameter, match=r"'nope' is not registered; registered brokers: broker-a, broker-b"):
            await admin.broker_info("nope")

    administer(scenario, tmp_path)


def test_a_group_is_deleted_on_every_broker_once_no_one_is_in_it(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5)
        with pytest.raises(IllegalOperation, match="group 'g' has 1 member: stop its members first"):
            await admin.delete_group("g")
        await consumer.stop()
        assert [(each.group, each.brokers) for each in await admin.groups()] == [("g", ("broker-a", "broker-b"))]
        await admin.delete_group("g")
        assert await admin.groups() == ()
        with pytest.raises(GroupNotExist, match="no broker knows group 'g'; there are no known groups"):
            await admin.delete_group("g")

    administer(scenario, tmp_path)


def test_a_group_is_not_deleted_anywhere_while_a_broker_cannot_be_asked(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await (await cluster.start_consumer("g", "t")).stop()
        apart = cluster.simulation.network.partition("operator", "broker-b")
        with apart, pytest.raises(NetworkError, match="nothing was deleted: broker broker-b"):
            await admin.delete_group("g")
        await anyio.sleep(10)
        assert [each.brokers for each in await admin.groups()] == [("broker-a", "broker-b")]

    administer(scenario, tmp_path)


def test_a_group_is_shown_as_it_is_and_as_it_should_be(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=3)
        for _ in range(4):
            await cluster.start_consumer("g", "t", expression="a || b")
        await cluster.wait_converged(5.0)
        info = await admin.group("g")
        shown = [queue for queue in info.queues if queue.queue.topic == "t"]
        assert {queue.queue: queue.targets for queue in shown} == cluster.target("g")
        assert {queue.queue: (queue.owner,) for queue in shown} == cluster.owners("g")
        assert [member.client_id for member in info.members] == sorted(c.client_id for c in cluster.consumers)
        for member, consumer in zip(info.members, cluster.consumers, strict=True):
            assert [queue for queue in member.queues if queue.topic == "t"] == consumer.queues
            assert (member.strategy, member.brokers) == ("AVG", ("broker-a", "broker-b"))
            assert member.address.partition(":")[0] == consumer.host
            assert {s.topic: s.expression for s in member.subscriptions} == {"t": "a || b", "%RETRY%g": "*"}
        assert info.unreachable == info.unknown_strategies == ()

    administer(scenario, tmp_path)


def test_progress_follows_the_commits_of_the_group(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-a"])
        consumer = await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5.0)
        producer = await cluster.start_producer()
        await producer.send_many("t", 7)
        await anyio.sleep(10)
        assert _lag(await admin.group("g"), "t") == (7, 0)
        await consumer.stop()
        await producer.send_many("t", 2, first=7)
        after = await admin.group("g")
        assert _lag(after, "t") == (7, 2)
        assert after.lag == 2
        assert after.members == ()
        assert not any(queue.owner or queue.targets for queue in after.queues)

    administer(scenario, tmp_path)


def test_progress_alone_is_that_of_the_group_without_its_targets(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5.0)
        producer = await cluster.start_producer()
        await producer.send_many("t", 7)
        await anyio.sleep(10)
        whole, alone = (await admin.group("g")).queues, await admin.progress("g")
        assert sorted(alone, key=lambda each: each.queue) == [replace(each, targets=()) for each in whole]
        assert {each.in_flight for each in alone} == {0}, "all is committed"
        assert await admin.progress("nobody") == ()

    administer(scenario, tmp_path)


def _lag(info: GroupInfo, topic: str) -> tuple[int | None, int | None]:
    (queue,) = [queue for queue in info.queues if queue.queue.topic == topic]
    return queue.committed, queue.lag


def test_a_group_that_is_between_two_states_is_not_balanced(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=2)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5.0)
        # Neither notified nor with a timer, the second one asks for queues once and the first one never lets go.
        cluster.consumers[0].hang()
        await cluster.start_consumer("g", "t")
        info = await admin.group("g")
        assert not info.balanced
        assert [queue.settled for queue in info.queues if queue.queue.topic == "t"].count(False) > 0

    administer(scenario, tmp_path)


def test_groups_are_listed_with_their_members_counted_once(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        assert await admin.groups() == ()
        await cluster.create_topic("t")
        for group in ("z", "a", "z"):
            await cluster.start_consumer(group, "t")
        await cluster.wait_converged(5.0)
        groups = await admin.groups()
        assert [(each.group, each.members) for each in groups] == [("a", 1), ("z", 2)]
        assert groups[0].brokers == ("broker-a", "broker-b")

    administer(scenario, tmp_path)


def test_an_unknown_group_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(GroupNotExist, match="there are no known groups"):
            await admin.group("nope")
        await cluster.create_topic("t")
        await cluster.start_consumer("billing", "t")
        with pytest.raises(GroupNotExist, match="no broker knows group 'nope'; known groups: billing"):
            await admin.group("nope")
        with pytest.raises(InvalidParameter, match="group name"):
            await admin.group("no such name")

    administer(scenario, tmp_path)


def test_a_broker_that_hangs_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t")
        await cluster.wait_converged(5.0)
        with cluster.simulation.network.stall("broker-b"):
            info = await admin.group("g")
            assert [each.group for each in await admin.groups()] == ["g"]
        assert info.unreachable == ("broker-b",)
        assert {queue.queue.broker_name for queue in info.queues} == {"broker-a"}
        assert all(queue.settled for queue in info.queues)
        with (
            cluster.simulation.network.stall("broker-a"),
            cluster.simulation.network.stall("broker-b"),
            pytest.raises(ConnectFailed, match="no broker answers: broker-a: "),
        ):
            await admin.groups()

    administer(scenario, tmp_path)


def test_a_cluster_without_brokers_says_what_to_do(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=0) as cluster, Admin(cluster.addresses) as admin:
            assert await admin.brokers() == ()
            for ask in (admin.groups, lambda: admin.group("g"), lambda: admin.create_topic("t")):
                with pytest.raises(
                    ServiceNotAvailable, match=r"no broker is registered .* start one with 'rlab broker'"
                ):
                    await ask()

    run_simulation(main)


def test_what_is_not_a_name_server_is_refused_at_the_start(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(ConfigError, match="broker-a:10911 is broker 'broker-a', not a name server"):
            await Admin("broker-a:10911").start()
        with pytest.raises(ConnectFailed, match="no name server answers: nobody:1: cannot connect to nobody:1"):
            await Admin("nobody:1").start()
        with pytest.raises(ConfigError, match="not an address"):
            Admin("nobody")

    administer(scenario, tmp_path)


def test_one_name_server_of_two_is_enough(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.name_servers["namesrv-1"].crash()
        for seed in range(4):
            async with Admin(cluster.addresses, rng=Random(seed)) as other:
                assert "warm-up" in await other.topics()

    administer(scenario, tmp_path, name_servers=2)


def test_it_may_be_shut_down_twice_and_leaves_no_connection(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await anyio.sleep(1)
        before = cluster.simulation.network.statistics().connections_open
        other = Admin(cluster.addresses)
        async with other:
            await other.groups()
        await other.shutdown()
        await anyio.sleep(REQUEST_TIMEOUT_S)
        assert cluster.simulation.network.statistics().connections_open == before

    administer(scenario, tmp_path)


def test_what_members_have_popped_is_reported_with_who_has_it_and_for_how_long(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-b"])
        popper = await cluster.start_popper("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET)
        producer = await cluster.start_producer()
        await producer.send_many("t", 5)
        first, *_ = await popper.receive(2, invisible_s=30.0)
        await popper.ack([first])
        await anyio.sleep(2)
        info = await admin.group("g")
        [member], [popped] = info.members, info.popped_queues
        assert (info.mode_of(member), info.in_flight_of(member.client_id), info.in_flight) == ("pop", 1, 1)
        assert (popped.queue.broker_name, popped.first_unended, popped.next_offset) == ("broker-b", 1, 2)
        assert popped.oldest_ms == pytest.approx(2_000, abs=100)
        assert popped.next_visible_ms == pytest.approx(28_000, abs=100)
        assert info.balanced
        assert not any(queue.targets for queue in info.queues), "nobody should own what is popped"

    administer(scenario, tmp_path)


def test_a_group_is_shown_by_brokers_that_do_without_pop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ClusterRequests.ask

    async def without_pop(
        self: ClusterRequests, masters: Mapping[str, str], code: RequestCode, header: Mapping[str, Any]
    ) -> dict[str, Answer]:
        if code is RequestCode.GET_POP_STATS:
            return dict.fromkeys(masters, RequestCodeNotSupported("no POP here"))
        return await ask(self, masters, code, header)

    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(30)
        info = await admin.group("g")
        assert (info.balanced, info.popped_queues, info.unreachable) == (True, (), ())

    monkeypatch.setattr(ClusterRequests, "ask", without_pop)
    administer(scenario, tmp_path)


# --- assignment by a broker ---


def test_a_mode_is_known_to_every_broker_also_before_the_group_has_members(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await admin.set_request_mode("g", "t", "POP", pop_share_queue_num=2)
        for server in cluster.brokers.values():
            mode = server.running.broker.assignment.assignments.mode_of("g", "t")
            assert (mode.mode, mode.pop_share_queue_num) == (RequestMode.POP, 2)
        [mode_info] = (await admin.assignment("g")).modes
        assert (mode_info.topic, mode_info.mode, mode_info.pop_share_queue_num) == ("t", RequestMode.POP, 2)

    administer(scenario, tmp_path)


def test_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        cluster.simulation.network.partition("operator", "broker-b")
        with pytest.raises(NetworkError, match="could not be set on broker broker-b"):
            await admin.set_request_mode("g", "t", RequestMode.POP)

    administer(scenario, tmp_path)


def test_a_topic_that_the_cluster_does_not_have_is_refused_and_one_that_a_single_broker_has_is_not(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(TopicNotExist, match="'ordrs' does not exist"):
            await admin.set_request_mode("g", "ordrs", RequestMode.POP)
        await admin.create_topic("orders", 1, brokers=["broker-b"])
        await admin.set_request_mode("g", "orders", RequestMode.POP)
        for server in cluster.brokers.values():
            assert list(server.running.broker.assignment.assignments.modes_of("g")) == ["orders"]

    administer(scenario, tmp_path)


def test_what_is_not_a_mode_or_topic_is_refused(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(InvalidParameter, match="PULL, POP"):
            await admin.set_request_mode("g", "t", "pull")
        with pytest.raises(IllegalOperation, match="retry topic"):
            await admin.set_request_mode("g", "%RETRY%g", "POP")
        with pytest.raises(InvalidParameter):
            await admin.assignment("")

    administer(scenario, tmp_path)


def test_the_assignment_of_a_group_that_shares_for_itself_is_none(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t")
        await anyio.sleep(1)
        assert (await admin.assignment("g")).version == 0

    administer(scenario, tmp_path)
