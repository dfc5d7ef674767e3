"""Leases asked for, given back and committed under: one request per broker, and one answer per queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from client.instance.instance import ClientInstance
from client.leases.requests import Commit, Grant, LeaseOutcome, LeaseRequests
from model.errors import (
    ConnectFailed,
    InvalidParameter,
    LeaseLost,
    NetworkError,
    OffsetRegression,
    RequestTimeout,
)
from model.events import EventKind
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.instance.members import FakeMember, introduce, running_instance

__all__ = ["wire"]

A0, A1, B0, B1 = (MessageQueue("t", broker, n) for broker in ("broker-a", "broker-b") for n in (0, 1))
MESSAGES = 5
"""In each of them, so that offsets 0 to 5 can be committed."""

Scenario = Callable[[SimulatedCluster, ClientInstance, ClientInstance], Awaitable[None]]


def with_two_members(simulate: Simulate, scenario: Scenario) -> None:
    """Run a scenario with two members of group g; topic t has two queues on each of two brokers."""

    async def main(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        async with running_instance(cluster, "c1") as first, running_instance(cluster, "c2") as second:
            for instance in (first, second):
                await introduce(instance, FakeMember())
            producer = await cluster.start_producer()
            for queue in (A0, A1, B0, B1):
                for n in range(MESSAGES):
                    await producer.send("t", b"%d" % n, queue=queue)
            await scenario(cluster, first, second)

    simulate(main)


async def granted(leases: LeaseRequests, *queues: MessageQueue) -> list[Grant]:
    outcome = await leases.acquire(queues, "")
    assert (outcome.refused, outcome.failed) == ({}, {})
    return [outcome.granted[queue] for queue in queues]


def test_each_broker_is_asked_once_for_all_its_queues_and_says_where_to_start(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        at = cluster.simulation.loop.time()
        outcome = await LeaseRequests(first, "g").acquire([B1, A0, B0, A1], "root/1")
        assert set(outcome.granted) == {A0, A1, B0, B1}
        assert {grant.start_offset for grant in outcome.granted.values()} == {0}
        sent = [each for each in wire.sent if each.code.name == "LOCK_BATCH_MQ"]
        assert sorted(each.target for each in sent) == ["broker-a", "broker-b"]
        assert {each.time_s for each in sent} == {at}, "nobody waits for another broker"
        assert {event.cause for event in cluster.events_of(EventKind.LOCK_GRANTED)} == {"root/1"}

    with_two_members(simulate, scenario)


def test_what_another_member_has_is_refused_with_its_name_and_the_rest_is_granted(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        own = await granted(LeaseRequests(first, "g"), A0, B0)
        gone = MessageQueue("t", "broker-a", 7)
        outcome = await LeaseRequests(second, "g").acquire([A0, A1, B0, gone], "")
        assert outcome.refused == {A0: "c1@1", B0: "c1@1", gone: ""}
        assert (list(outcome.granted), outcome.failed) == ([A1], {})
        assert await granted(LeaseRequests(first, "g"), A0, B0) == own, "asking again gives the same leases"

    with_two_members(simulate, scenario)


def test_who_gives_back_commits_and_the_next_owner_starts_there_with_a_new_token(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        old, other = LeaseRequests(first, "g"), LeaseRequests(second, "g")
        a0, b0 = await granted(old, A0, B0)
        assert await old.release([Commit(A0, 3, a0.token), Commit(B0, -1, b0.token)], "") == {}
        new_a0, new_b0 = await granted(other, A0, B0)
        assert (new_a0.start_offset, new_b0.start_offset) == (3, 0), "-1 commits nothing"
        assert new_a0.token > a0.token

        late = await old.release([Commit(A0, 5, a0.token)], "")
        assert {queue: type(error) for queue, error in late.items()} == {A0: LeaseLost}
        assert (await granted(other, A0))[0] == new_a0, "what comes late takes nothing from the new owner"

    with_two_members(simulate, scenario)


def test_a_commit_is_refused_queue_by_queue_and_each_refusal_reports_its_reason(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        leases = LeaseRequests(first, "g")
        a0, a1, b0, b1 = await granted(leases, A0, A1, B0, B1)
        assert await leases.commit([Commit(A1, 4, a1.token)]) == {}
        failures = await leases.commit(
            [
                Commit(A0, 1, a0.token + 1000),
                Commit(A1, 2, a1.token),
                Commit(B0, MESSAGES + 1, b0.token),
                Commit(B1, 5, b1.token),
            ]
        )
        assert {queue: type(error) for queue, error in failures.items()} == {
            A0: LeaseLost,
            A1: OffsetRegression,
            B0: InvalidParameter,
        }
        assert await leases.commit([Commit(A1, 2, a1.token)], reset=True) == {}
        starts = [grant.start_offset for grant in await granted(leases, A0, A1, B0, B1)]
        assert starts == [0, 2, 0, 5]

    with_two_members(simulate, scenario)


@pytest.mark.parametrize("how", ["crash", "hang"])
def test_a_broker_that_does_not_answer_fails_its_own_queues_only_and_the_log_has_one_line_of_it(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        leases = LeaseRequests(first, "g")
        a0, b0 = await granted(leases, A0, B0)
        if how == "hang":
            cluster.simulation.network.stall("broker-a")
        else:
            await cluster.brokers["broker-a"].crash()
        outcome = await leases.acquire([A0, A1, B0, B1], "")
        assert (list(outcome.failed), outcome.refused) == ([A0, A1], {})
        assert list(outcome.granted) == [B0, B1]
        commits = [Commit(A0, 1, a0.token), Commit(B0, 1, b0.token)]
        for failures in (await leases.commit(commits), await leases.release(commits, "")):
            assert list(failures) == [A0]
            assert isinstance(failures[A0], NetworkError)
        if how == "hang":
            assert isinstance(outcome.failed[A0], RequestTimeout)
            assert not outcome.failed[A0].definite, "it may have been granted all the same"
        reported = [record.getMessage() for record in caplog.records if "no lease" in record.getMessage()]
        assert reported == [f"{first.client_id}: no lease of 2 queues, the first {A0}: {outcome.failed[A0]}"]

    with_two_members(simulate, scenario)


def test_a_broker_in_no_route_is_not_asked(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        elsewhere = MessageQueue("t", "broker-x", 0)
        wire.sent.clear()
        outcome = await LeaseRequests(first, "g").acquire([elsewhere], "")
        failures = await LeaseRequests(first, "g").commit([Commit(elsewhere, 1, 1)])
        for error in (outcome.failed[elsewhere], failures[elsewhere]):
            assert isinstance(error, ConnectFailed)
            assert "no route names a master of broker 'broker-x'" in str(error)
        assert wire.codes("c1") == []

    with_two_members(simulate, scenario)


def test_to_a_broker_that_does_not_know_us_we_introduce_ourselves_and_ask_again(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        async with running_instance(cluster, "c1") as instance:
            await instance.update_routes(("t",))
            instance.register(FakeMember())  # after the routes, which would introduce it
            wire.sent.clear()
            await granted(LeaseRequests(instance, "g"), A0)
            assert wire.codes("c1", "broker-a") == ["HEART_BEAT", "LOCK_BATCH_MQ"]

            outsider = await LeaseRequests(instance, "nobody").acquire([A0], "")
            assert [type(error) for error in outsider.failed.values()] == [ConnectFailed]
            assert wire.codes("c1", "broker-a")[2:] == ["HEART_BEAT"], "and no more"


def test_a_broker_that_has_forgotten_us_without_our_notice_is_introduced_to_us_again(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        async with running_instance(cluster, "c1") as instance:
            await introduce(instance, FakeMember())
            broker = cluster.brokers["broker-a"].running.broker
            assert broker.groups.table.unregister("g", instance.client_id, cause="", now=cluster.simulation.loop.time())
            wire.sent.clear()
            await granted(LeaseRequests(instance, "g"), A0)
            assert wire.codes("c1", "broker-a") == ["LOCK_BATCH_MQ", "HEART_BEAT", "LOCK_BATCH_MQ"]

    simulate(scenario)


def test_with_nothing_to_ask_no_one_is_asked(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        leases = LeaseRequests(first, "g")
        wire.sent.clear()
        assert await leases.acquire([], "") == LeaseOutcome()
        assert await leases.commit([]) == {}
        assert await leases.release([], "") == {}
        assert wire.codes("c1") == []

    with_two_members(simulate, scenario)


def test_a_request_that_is_cancelled_gives_the_same_leases_when_asked_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster, first: ClientInstance, second: ClientInstance) -> None:
        leases = LeaseRequests(first, "g")
        with anyio.move_on_after(0.00075) as scope:
            await leases.acquire([A0], "")
        assert scope.cancelled_caught
        (event,) = cluster.events_of(EventKind.LOCK_GRANTED)
        assert [grant.token for grant in await granted(leases, A0)] == [event.version]

    with_two_members(simulate, scenario)
