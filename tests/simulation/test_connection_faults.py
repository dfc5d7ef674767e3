"""Faults of live connections: each verb's effect on the trace and the group, and that it ends with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import anyio
import pytest

from broker.groups.faults import make_fault_hook
from model.errors import ConnectionLost, RequestTimeout
from model.events import Event, EventKind
from remoting.connection import INTERPOSED, Connection
from remoting.faults.fault import parse_fault
from remoting.faults.hook import FaultHook
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


class Bench:
    """A cluster of one broker with two members of a group, and the faults of that broker."""

    def __init__(self, cluster: SimulatedCluster, one: SimulatedConsumer, two: SimulatedConsumer) -> None:
        self.cluster, self.one, self.two = cluster, one, two
        self.broker = cluster.brokers["broker-a"].running
        self.hook: FaultHook = make_fault_hook(
            self.broker.server, self.broker.broker.groups, self.broker.broker.events, Random(1)
        )

    def begin(self, **document: Any) -> int:
        return self.hook.begin(parse_fault(document)).number

    def events(self, kind: EventKind, **columns: Any) -> list[Event]:
        return self.cluster.events_of(kind, **columns)

    def done(self) -> int:
        return sum(event.n for event in self.events(EventKind.FAULT_DONE))

    def connection_of(self, member: SimulatedConsumer) -> Connection:
        [found] = [
            self.broker.server.connection(number)
            for number, client in self.broker.broker.groups.clients.items()
            if client.client_id == member.client_id
        ]
        assert found is not None
        return found

    def notices(self, member: SimulatedConsumer) -> int:
        return len(self.events(EventKind.NOTIFY_RECEIVED, client=member.client_id))


Scenario = Callable[[Bench], Awaitable[None]]


def on_a_bench(simulate: Simulate, scenario: Scenario, **options: Any) -> None:
    async def run(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", queues=4)
        one = await cluster.start_consumer("billing", "orders", instance_name="c1", **options)
        two = await cluster.start_consumer("billing", "orders", instance_name="c2", **options)
        await cluster.wait_converged(5.0)
        await anyio.sleep(2)
        bench = Bench(cluster, one, two)
        await scenario(bench)
        assert bench.hook.active() == []
        began, healed = bench.events(EventKind.FAULT_BEGAN), bench.events(EventKind.FAULT_HEALED)
        assert [event.cause for event in began] == [event.id for event in began]
        assert sorted(event.cause for event in healed) == sorted(event.id for event in began)
        assert {event.cause for event in bench.events(EventKind.FAULT_DONE)} <= {event.id for event in began}
        assert all(vars(connection).keys().isdisjoint(INTERPOSED) for connection in bench.broker.server.connections)

    simulate(run, brokers=1)


def test_a_dropped_notification_reaches_the_others_and_the_next_one_all(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        one, two = bench.notices(bench.one), bench.notices(bench.two)
        bench.begin(do="drop", code="NOTIFY_CONSUMER_IDS_CHANGED", client="c2", n=1)
        third = await bench.cluster.start_consumer("billing", "orders")
        await anyio.sleep(1)
        assert (bench.notices(bench.one) > one, bench.notices(bench.two)) == (True, two)
        [done] = bench.events(EventKind.FAULT_DONE)
        assert (done.client, done.n) == (bench.two.client_id, 1)
        await third.stop()
        await anyio.sleep(1)
        assert bench.notices(bench.two) > two

    on_a_bench(simulate, scenario)


def test_every_heartbeat_of_one_member_can_be_lost_until_its_session_expires(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        number = bench.begin(do="drop", code="HEART_BEAT", client="c2")
        # Pulls under a lease prolong a session as well, so they have to be lost too.
        pulls = bench.begin(do="drop", code="PULL_MESSAGE", client="c2")
        await anyio.sleep(40)
        [left] = bench.events(EventKind.MEMBER_LEAVE)
        assert (left.client, left.detail) == (bench.two.client_id, "expiry")
        assert bench.done() > 2
        bench.hook.heal(number)
        bench.hook.heal(pulls)
        await bench.cluster.wait_converged(60.0)
        assert len(bench.events(EventKind.MEMBER_JOIN, client=bench.two.client_id)) == 2

    on_a_bench(simulate, scenario, session_timeout_s=10.0)


def test_delayed_sends_are_acknowledged_late_and_those_after_it_in_time(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer()
        loop = bench.cluster.simulation.loop

        async def took() -> float:
            began = loop.time()
            await producer.send("orders", b"x")
            return loop.time() - began

        await took()
        usual = await took()
        number = bench.begin(do="delay", code="SEND_MESSAGE", by_s=1.0, jitter_s=0.5)
        assert 1.0 <= await took() <= 1.6
        assert bench.hook.active()[0]["done"] == 1
        bench.hook.heal(number)
        assert await took() == pytest.approx(usual)

    on_a_bench(simulate, scenario)


def test_what_is_delayed_both_ways_keeps_its_order(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer()
        await producer.send("orders", b"x")
        bench.begin(do="delay", by_s=0.1, jitter_s=1.0, for_s=3.0)
        acknowledged: list[int] = []
        async with anyio.create_task_group() as tasks:

            async def send(n: int) -> None:
                await producer.send("orders", b"%d" % n)
                acknowledged.append(n)

            for n in range(20):
                tasks.start_soon(send, n)
                await anyio.sleep(0.05)  # together they would be one frame
        assert acknowledged == list(range(20))
        assert bench.done() >= 40
        await anyio.sleep(5)

    on_a_bench(simulate, scenario)


def test_a_send_that_is_duplicated_is_stored_twice_and_acknowledged_once(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer()
        bench.begin(do="duplicate", code="SEND_MESSAGE", n=1)
        await producer.send("orders", b"twice")
        await producer.send("orders", b"once")
        await anyio.sleep(1)
        got = sorted(delivery.body for member in (bench.one, bench.two) for delivery in member.deliveries)
        assert got == [b"once", b"twice", b"twice"]

    on_a_bench(simulate, scenario)


def test_a_notification_that_is_duplicated_comes_twice_to_one_member(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        one, two = bench.notices(bench.one), bench.notices(bench.two)
        number = bench.begin(do="duplicate", code="NOTIFY_CONSUMER_IDS_CHANGED", client="c2")
        third = await bench.cluster.start_consumer("billing", "orders")
        await anyio.sleep(1)
        once, twice = bench.notices(bench.one) - one, bench.notices(bench.two) - two
        assert (once > 0, twice) == (True, 2 * once)
        bench.hook.heal(number)
        one, two = bench.notices(bench.one), bench.notices(bench.two)
        await third.stop()
        await anyio.sleep(1)
        assert bench.notices(bench.two) - two == bench.notices(bench.one) - one

    on_a_bench(simulate, scenario)


def test_a_cut_resets_the_connection_of_one_client_which_comes_back(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        before, other = bench.connection_of(bench.two), bench.connection_of(bench.one)
        bench.begin(do="cut", client="c2")
        assert (before.closed, other.closed) == (True, False)
        assert [event.client for event in bench.events(EventKind.FAULT_DONE)] == [bench.two.client_id]
        await anyio.sleep(5)
        assert bench.connection_of(bench.two) is not before
        await bench.cluster.wait_converged(10.0)

    on_a_bench(simulate, scenario)


def test_a_cut_with_a_code_resets_the_connection_when_such_a_request_passes(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer(retries=0)
        await producer.send("orders", b"x")
        bench.begin(do="cut", code="SEND_MESSAGE", n=1)
        with pytest.raises(ConnectionLost):
            await producer.send("orders", b"x")
        await producer.send("orders", b"x")

    on_a_bench(simulate, scenario)


def test_a_cut_with_a_code_that_a_broker_sends_resets_the_connection_of_the_one_it_is_for(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        before, other = bench.connection_of(bench.two), bench.connection_of(bench.one)
        bench.begin(do="cut", code="NOTIFY_CONSUMER_IDS_CHANGED", client="c2", n=1)
        await bench.cluster.start_consumer("billing", "orders")
        await anyio.sleep(5)
        assert (before.closed, other.closed) == (True, False)

    on_a_bench(simulate, scenario)


def test_a_client_that_is_refused_cannot_come_back_until_that_is_healed(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        number = bench.begin(do="refuse", group="billing", client="c2")
        await anyio.sleep(30)
        assert [event.client for event in bench.events(EventKind.MEMBER_LEAVE)] == [bench.two.client_id]
        assert len(bench.one.queues) == 4
        assert bench.done() > 1, "each attempt is refused"
        bench.hook.heal(number)
        await bench.cluster.wait_converged(60.0)
        assert len(bench.two.queues) == 2

    on_a_bench(simulate, scenario)


def test_a_member_that_is_paused_loses_its_queues_and_gets_them_back(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        bench.begin(do="pause", client="c2", for_s=30.0)
        await anyio.sleep(25)
        [left] = bench.events(EventKind.MEMBER_LEAVE)
        assert (left.client, left.detail) == (bench.two.client_id, "expiry")
        assert bench.done() >= 1
        await anyio.sleep(10)
        await bench.cluster.wait_converged(60.0)
        assert len(bench.two.queues) == 2

    on_a_bench(simulate, scenario, session_timeout_s=10.0)


def test_what_a_paused_connection_has_in_both_directions_comes_in_order_when_it_goes_on(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer(instance_name="p")
        await producer.send("orders", b"first")
        number = bench.begin(do="pause", client="p")
        async with anyio.create_task_group() as tasks:
            for n in range(5):
                tasks.start_soon(producer.send, "orders", b"%d" % n)
            await anyio.sleep(1)
            assert sum(len(member.deliveries) for member in (bench.one, bench.two)) == 1
            bench.hook.heal(number)
        await anyio.sleep(1)
        assert sum(len(member.deliveries) for member in (bench.one, bench.two)) == 6

    on_a_bench(simulate, scenario)


@pytest.mark.parametrize("end", ["server", "client"])
def test_of_a_half_open_connection_one_end_learns_only_when_it_is_healed(simulate: Simulate, end: str) -> None:
    async def scenario(bench: Bench) -> None:
        connection = bench.connection_of(bench.two)
        lost = len(bench.events(EventKind.BROKER_DOWN))
        number = bench.begin(do="half_open", client="c2", end=end, n=1)
        await anyio.sleep(0.01)
        assert connection.closed is (end == "server")
        await anyio.sleep(1)
        # A broker ends the old connection of a member that registers over a new one.
        assert connection.closed
        assert (len(bench.events(EventKind.BROKER_DOWN)) > lost) is (end == "client")
        bench.hook.heal(number)
        await anyio.sleep(1)
        assert connection.closed
        assert len(bench.events(EventKind.BROKER_DOWN)) > lost
        await bench.cluster.wait_converged(60.0)

    on_a_bench(simulate, scenario)


def test_a_slow_reader_gets_its_messages_at_its_rate_and_the_rest_at_once_when_it_is_healed(
    simulate: Simulate,
) -> None:
    async def scenario(bench: Bench) -> None:
        number = bench.begin(do="slow_reader", group="billing", rate=10_000)
        producer = await bench.cluster.start_producer()
        for _ in range(20):
            await producer.send("orders", bytes(10_000))

        def got() -> int:
            return sum(len(member.deliveries) for member in (bench.one, bench.two))

        await anyio.sleep(5)
        assert 3 <= got() <= 12, "two members with 10 kB a second each"
        assert bench.done() == 2
        bench.hook.heal(number)
        await anyio.sleep(1)
        assert got() == 20

    on_a_bench(simulate, scenario)


def test_a_share_and_each_so_many_th_are_exact_and_chosen_by_the_seed(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer(retries=0)

        async def lost(n: int) -> int:
            failed = 0
            for _ in range(n):
                try:
                    await producer.send("orders", b"x")
                except RequestTimeout:
                    failed += 1
            return failed

        number = bench.begin(do="drop", code="SEND_MESSAGE", one_in=4)
        assert await lost(12) == 3
        bench.hook.heal(number)
        number = bench.begin(do="drop", code="SEND_MESSAGE", share=0.5)
        assert 4 <= await lost(20) <= 16
        bench.hook.heal(number)
        assert await lost(20) == 0

    on_a_bench(simulate, scenario)


def test_answers_are_chosen_by_a_direction_and_not_by_the_code_alone(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.cluster.start_producer(retries=0)
        number = bench.begin(do="drop", code="SEND_MESSAGE", direction="to_client")
        with pytest.raises(RequestTimeout):
            await producer.send("orders", b"stored")
        bench.hook.heal(number)
        await anyio.sleep(1)
        assert [delivery.body for member in (bench.one, bench.two) for delivery in member.deliveries] == [b"stored"]

    on_a_bench(simulate, scenario)


def test_without_faults_a_connection_makes_the_calls_that_ship_and_no_other(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        connection = bench.connection_of(bench.one)

        def calls() -> list[object]:
            names = ("_handle", "_send", "respond", "notify", "request_for", "flush", "data_received")
            return [getattr(connection, name).__func__ for name in names]

        shipped = [
            Connection._handle,
            Connection._send,
            Connection.respond,
            Connection.notify,
            Connection.request_for,
            Connection.flush,
            Connection.data_received,
        ]
        assert calls() == shipped
        number = bench.begin(do="drop", code="SEND_MESSAGE", client="nobody")
        assert calls() != shipped
        bench.hook.heal(number)
        assert calls() == shipped

    on_a_bench(simulate, scenario)
