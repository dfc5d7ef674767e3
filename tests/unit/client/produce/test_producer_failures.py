"""A send that fails: what is tried again and where, and what the error tells about the message."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from broker.messages.send import Sends
from model.errors import (
    ConnectFailed,
    ConnectionLost,
    RequestTimeout,
    RlabError,
    SystemBusy,
)
from model.limits import SEND_RETRIES, SEND_TIMEOUT_S
from model.topic_route import Perm
from remoting.command import Command
from remoting.connection import Connection
from testbed.bench.kit.echo import TOPIC
from testbed.bench.throughput.half_away import send_all
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire
from tests.unit.client.produce.producing import sends, stored

__all__ = ["wire"]


# ------------------------------------------------------------------------------------------------------------- retries


def test_a_send_whose_broker_fails_in_between_goes_to_another_one(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(host="p", avoid_slow_brokers=False)
        for name in cluster.brokers:
            cluster.simulation.network.set_latency("p", name, 0.2)
        await producer.send("t", b"first")
        for number in range(8):
            wire.sent.clear()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(producer.send, "t", b"%d" % number)
                await anyio.sleep(0.05)
                (failing,) = sends(wire)
                cluster.simulation.network.cut(
                    "p", failing
                )  # it can be connected to again, and is avoided all the same
            assert producer.acknowledged[b"%d" % number].queue.broker_name != failing
            assert len(sends(wire)) == 2

    simulate(scenario)


def test_while_one_broker_is_gone_every_message_finds_the_other_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        await producer.send_many("t", 8)
        await cluster.brokers["broker-a"].crash()
        await producer.send_many("t", 20, first=8)
        later = [producer.acknowledged[b"%d" % n].queue.broker_name for n in range(8, 28)]
        assert set(later) == {"broker-b"}

    simulate(scenario)


def test_a_broker_that_may_not_be_written_any_more_is_asked_once_and_then_the_route_is_fresh(
    simulate: Simulate, wire: WireTap
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(avoid_slow_brokers=False)
        await producer.send("t", b"first")
        await cluster.create_topic("t", perm=Perm.READ, brokers=["broker-a"])
        wire.sent.clear()
        await producer.send_many("t", 20)
        assert sends(wire).count("broker-a") == 1
        assert sends(wire).count("broker-b") == 20

    simulate(scenario)


def test_a_topic_that_a_broker_refuses_takes_no_other_topic_from_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("other")
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        await producer.send("t", b"first")
        await cluster.create_topic("t", perm=Perm.READ, brokers=["broker-a"])
        await producer.send_many("t", 4)
        names = [(await producer.send("other", b"x%d" % number)).queue.broker_name for number in range(16)]
        assert set(names) == {"broker-a", "broker-b"}

    simulate(scenario)


@pytest.mark.parametrize("how", ["key", "queue"])
def test_a_send_that_chose_its_queue_is_tried_only_there(simulate: Simulate, how: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        chosen = (await producer.send("t", b"first", key="k")).queue
        await cluster.brokers[chosen.broker_name].crash()
        options: dict[str, Any] = {"key": "k"} if how == "key" else {"queue": chosen}
        with pytest.raises(ConnectFailed) as caught:
            await producer.send("t", b"second", **options)
        assert caught.value.definite
        assert stored(cluster) == 0, "the other broker was not asked"

    simulate(scenario)


def test_without_a_connection_no_more_is_tried_than_the_retries_allow(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(host="p")
        await producer.send("t", b"first")
        for name in cluster.brokers:
            cluster.simulation.network.set_latency("p", name, 0.1)
        wire.sent.clear()

        async def cut_always() -> None:
            while True:
                await anyio.sleep(0.05)
                for name in cluster.brokers:
                    if name in sends(wire)[-1:]:
                        cluster.simulation.network.cut("p", name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_always)
            with pytest.raises(ConnectionLost) as caught:
                await producer.send("t", b"x")
            tasks.cancel_scope.cancel()
        assert len(sends(wire)) == 1 + SEND_RETRIES
        assert not caught.value.definite

    simulate(scenario, brokers=4)


@pytest.mark.parametrize("avoids", [True, False])
def test_while_one_of_two_brokers_hangs_no_send_fails_and_none_takes_longer_than_its_share(
    simulate: Simulate, avoids: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic(TOPIC)
        producer = await cluster.start_producer(host="p", avoid_slow_brokers=avoids)
        await producer.send(TOPIC, b"first")
        now = cluster.simulation.loop.time
        with cluster.simulation.network.stall("broker-b"), cluster.simulation.on_host("p"):
            times_ms, errors = await send_all(producer.producer, 1_000, now)
        assert (len(times_ms), errors) == (1_000, [])
        assert max(times_ms) <= 1_100
        waited = sum(time_ms >= 1_000 for time_ms in times_ms)
        # All that were under way at that moment; without the table of latencies also half of the later ones, until the
        # silent connection is left, 3 s after the first of them has failed.
        assert waited == 64 if avoids else 200 < waited < 300
        assert stored(cluster, TOPIC) == 1_001

    simulate(scenario)


@pytest.mark.parametrize(("brokers", "hanging", "time_s"), [(3, 1, 1.0), (3, 2, 2.0), (2, 2, 3.0), (1, 1, 3.0)])
def test_an_attempt_gets_a_share_of_the_time_while_a_broker_is_left_that_did_not_just_fail(
    simulate: Simulate, wire: WireTap, brokers: int, hanging: int, time_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p")
        await producer.send_many("t", brokers)
        wire.sent.clear()
        order = ["broker-a", "broker-b", "broker-c"][:brokers]
        for name in order[:hanging]:
            cluster.simulation.network.stall(name)
        took_s = []
        for number in range(brokers):  # one of them begins with each broker
            started_s = cluster.simulation.loop.time()
            try:
                await producer.send("t", b"x%d" % number)
            except RequestTimeout:
                assert hanging == brokers
            took_s.append(cluster.simulation.loop.time() - started_s)
        assert max(took_s) == pytest.approx(time_s, abs=0.1)

    simulate(scenario, brokers=brokers)


def test_a_poll_of_routes_and_the_loss_of_one_broker_leave_the_connections_to_the_others_in_use(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p")
        await producer.send_many("t", 2)
        instance = producer.producer._instance
        assert instance is not None
        before = dict(instance.masters)
        assert list(before) == ["broker-a", "broker-b"]
        with cluster.simulation.on_host("p"):
            await instance.poll_routes()
        # Without it, a message that waits for the end of the event-loop iteration would fail as one without a broker.
        assert instance.masters == before
        cluster.simulation.network.cut("p", "broker-a")
        while "broker-a" in instance.masters:
            await anyio.lowlevel.checkpoint()
        assert instance.masters == {"broker-b": before["broker-b"]}

    simulate(scenario)


# ------------------------------------------------------------------------------------------------------------- latency


@pytest.mark.parametrize("avoids", [True, False])
def test_a_broker_that_answers_slowly_is_avoided_for_a_while_unless_configured_otherwise(
    simulate: Simulate, avoids: bool
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p", avoid_slow_brokers=avoids)
        await producer.send_many("t", 2)
        slow = cluster.simulation.network.set_latency("p", "broker-a", 0.4)  # 0.8 s there and back: avoided for 2 s
        await producer.send_many("t", 2, first=2)
        slow.heal()
        await producer.send_many("t", 10, first=4)
        names = [producer.acknowledged[b"%d" % n].queue.broker_name for n in range(4, 14)]
        assert names.count("broker-a") == (0 if avoids else 5)
        await anyio.sleep(2)
        await producer.send_many("t", 2, first=14)
        assert {producer.acknowledged[b"%d" % n].queue.broker_name for n in (14, 15)} == {"broker-a", "broker-b"}

    simulate(scenario)


# ---------------------------------------------------------------------------------------------- what an error tells


async def send_and_note(producer: SimulatedProducer, failures: list[RlabError]) -> None:
    try:
        await producer.send("t", b"x")
    except RlabError as error:
        failures.append(error)


@pytest.mark.parametrize(("lost", "n"), [("request", 0), ("answer", 1)])
def test_after_a_timeout_no_one_can_report_whether_the_message_is_stored(simulate: Simulate, lost: str, n: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p")
        await producer.send("t", b"first")
        way = ("p", "broker-a") if lost == "request" else ("broker-a", "p")
        started_s = cluster.simulation.loop.time()
        with cluster.simulation.network.partition(*way, one_way=True):
            with pytest.raises(RequestTimeout) as caught:
                await producer.send("t", b"x")
            assert cluster.simulation.loop.time() - started_s == pytest.approx(SEND_TIMEOUT_S, abs=0.01)
            assert not caught.value.definite
            assert stored(cluster) == 1 + n

    simulate(scenario, brokers=1)


def test_an_error_after_an_attempt_that_may_have_been_stored_does_not_say_that_nothing_was_sent(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p")
        await producer.send("t", b"first")
        network = cluster.simulation.network
        network.set_latency("p", "broker-a", 0.2)
        failures: list[RlabError] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_and_note, producer, failures)
            await anyio.sleep(0.3)  # the request has arrived, its answer has not
            network.refuse("broker-a", 10911)
            network.cut("p", "broker-a")
        assert stored(cluster) == 2
        (error,) = failures
        assert not error.definite

    simulate(scenario, brokers=1)


def asked_to_wait(wait_s: float) -> SystemBusy:
    error = SystemBusy("late")
    error.retry_after_s = wait_s
    return error


@pytest.mark.parametrize(("brokers", "waits"), [(1, True), (2, False)])
def test_a_late_broker_is_asked_again_when_it_says_and_another_one_at_once(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, brokers: int, waits: bool
) -> None:
    tried: list[float] = []
    store = Sends.send

    def late_at_first(self: Sends, connection: Connection, request: Command) -> None:
        if request.header["topic"] == "t":
            tried.append(anyio.current_time())
            if len(tried) == 1:
                raise asked_to_wait(0.5)
        store(self, connection, request)

    monkeypatch.setattr(Sends, "send", late_at_first)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer()
        await producer.send("t", b"m")
        assert stored(cluster) == 1
        first, second = tried
        assert (second - first >= 0.5) == waits

    simulate(scenario, brokers=brokers)


def test_a_send_that_would_have_to_wait_too_long_says_for_how_long(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(self: Sends, connection: Connection, request: Command) -> None:
        raise asked_to_wait(2.5)

    monkeypatch.setattr(Sends, "send", late)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(timeout_s=1.0)
        begun = anyio.current_time()
        with pytest.raises(SystemBusy) as caught:
            await producer.send("t", b"m")
        assert caught.value.retry_after_s == 2.5
        assert anyio.current_time() - begun < 0.5, "it is of no use to wait"

    simulate(scenario, brokers=1, trace=False)


def test_a_send_under_way_at_the_shutdown_fails_as_one_whose_connection_was_lost(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer(host="p")
        await producer.send("t", b"first")
        cluster.simulation.network.set_latency("p", "broker-a", 0.5)
        failures: list[RlabError] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_and_note, producer, failures)
            await anyio.sleep(0.1)
            await producer.stop()
        (error,) = failures
        assert isinstance(error, ConnectionLost)

    simulate(scenario, brokers=1)


# -------------------------------------------------------------------------------------------------------- their latency


def test_a_latency_sink_gets_the_time_of_each_send_with_all_its_attempts(simulate: Simulate) -> None:
    reported: list[tuple[float, bool]] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        producer = await cluster.start_producer(host="p", latency_sink=lambda *each: reported.append(each))
        for name in cluster.brokers:
            cluster.simulation.network.set_latency("p", name, 0.1)
        await producer.send("t", b"0")
        for name in cluster.brokers:
            await cluster.brokers[name].crash()
        with pytest.raises(RlabError):
            await producer.send("t", b"1")

    simulate(scenario)
    (quick, sent), (slow, failed) = reported
    assert (sent, failed) == (True, False)
    assert quick == pytest.approx(0.2, abs=0.02)
    assert 0.2 < slow <= SEND_TIMEOUT_S + 0.1
