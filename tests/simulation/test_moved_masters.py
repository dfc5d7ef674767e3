"""A set of replicas gets another master: clients follow it, and nothing else changes for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest

from broker.store.disk.errors import StoreEpochTooLow
from client.options import ConsumeMode
from model.errors import ConnectFailed, RlabError
from model.events import EventKind
from model.limits import SEND_TIMEOUT_S
from model.message import Message
from model.replica_limits import MASTER_CONNECT_S, MASTER_KEPT_S
from model.transaction import TransactionState
from namesrv.faults import NameServerFaults
from remoting.client import RemotingClient
from remoting.faults.fault import parse_fault
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.replica_places import SET_ID, following, mastership, promote
from tests.unit.namesrv.registrations import broker, wire

pytestmark = pytest.mark.simulation

Scenario = Callable[[SimulatedCluster], Awaitable[None]]


class Load:
    """Sends with keys, one each 20 ms and without waiting for the one before; the errors, and how long each took."""

    def __init__(self, cluster: SimulatedCluster, producer: SimulatedProducer) -> None:
        self.sent: list[bytes] = []
        self.took_s: list[float] = []
        self.errors: list[RlabError] = []
        self._cluster = cluster
        self._producer = producer

    async def _send(self, body: bytes) -> None:
        began = anyio.current_time()
        try:
            await self._producer.send("orders", body, key=body.decode())
        except RlabError as error:
            self.errors.append(error)
        else:
            self.sent.append(body)
        self.took_s.append(anyio.current_time() - began)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def run() -> None:
            async with anyio.create_task_group() as sends:
                n = 0
                while not over.is_set():
                    sends.start_soon(self._send, b"%d" % n)
                    n += 1
                    await anyio.sleep(0.02)

        over = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield
            over.set()


class Group:
    """Two members of a group on a set, with what they own."""

    def __init__(self, cluster: SimulatedCluster, mode: ConsumeMode) -> None:
        self.members: list[SimulatedConsumer] = []
        self._cluster = cluster
        self._mode = mode
        self._at = 0

    async def start(self) -> None:
        for _ in range(2):
            self.members.append(await self._cluster.start_consumer("billing", "orders", mode=self._mode))
        await anyio.sleep(10)
        self._at = len(self._cluster.events)

    def moved(self) -> list[str]:
        """What has happened to its queues since the start."""
        kinds = (EventKind.QUEUE_DROPPED, EventKind.QUEUE_ACQUIRED, EventKind.MEMBER_LEAVE)
        return [
            f"{e.kind} {e.client} {e.topic} {e.queue_id}" for k in kinds for e in self._cluster.events_of(k, self._at)
        ]

    def bodies(self) -> list[bytes]:
        return [body for member in self.members for body in member.bodies]


async def start_set(cluster: SimulatedCluster) -> None:
    """Make the only broker of a cluster the master of a set."""
    await cluster.brokers["broker-a"].stop()
    await promote(cluster, "broker-a", "broker-a", 1)
    await cluster.create_topic("orders", queues=4)


MODES = pytest.mark.parametrize("mode", [ConsumeMode.PULL, ConsumeMode.POP])


@MODES
@pytest.mark.parametrize("away_s", [0.2, 2.0])
def test_a_killed_master_is_replaced_at_another_address_and_its_members_keep_their_queues(
    simulate: Simulate, mode: ConsumeMode, away_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        group, producer = Group(cluster, mode), await cluster.start_producer()
        async with following(cluster, "broker-a", "host-2"):
            await group.start()
            load = Load(cluster, producer)
            async with load.running():
                await anyio.sleep(1)
                await cluster.brokers["broker-a"].crash()
                await anyio.sleep(away_s)
                # The replica goes on answering NOT_MASTER while the master starts elsewhere.
                await promote(cluster, "broker-a", "host-3", 2)
                await anyio.sleep(2)
            await anyio.sleep(5)
            assert load.errors == []
            assert max(load.took_s) < away_s + 0.5
            assert group.moved() == []
            assert set(group.bodies()) == set(load.sent)
            # Those that were finished and not committed yet, as after a restart.
            assert len(group.bodies()) - len(load.sent) <= 50

    simulate(scenario, brokers=1)


@MODES
def test_a_master_that_hands_over_is_followed_by_its_refusals_alone(simulate: Simulate, mode: ConsumeMode) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        hook = NameServerFaults(cluster.name_servers["namesrv-1"].running.server).hook(Random(1))
        hook.begin(parse_fault({"do": "drop", "code": "NOTIFY_ROUTE_CHANGED"}))
        group, producer = Group(cluster, mode), await cluster.start_producer()
        await group.start()
        load = Load(cluster, producer)
        async with load.running():
            await anyio.sleep(1)
            await cluster.brokers["broker-a"].stop()
            await promote(cluster, "broker-a", "host-2", 2)
            async with following(cluster, "broker-a", "broker-a", master="host-2:10911", epoch=2, replica_id=1):
                await anyio.sleep(3)
        await anyio.sleep(5)
        assert load.errors == []
        assert max(load.took_s) < 0.5
        assert group.moved() == []
        assert set(group.bodies()) == set(load.sent)

    simulate(scenario, brokers=1)


def test_a_dead_address_costs_a_send_one_second_and_the_send_goes_on_at_the_next_master(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        producer = await cluster.start_producer()
        await producer.send("orders", b"before")
        await anyio.sleep(5)
        async with following(cluster, "broker-a", "host-2"):
            await cluster.brokers["broker-a"].crash()
            network = cluster.simulation.network
            network.partition(producer.host, "broker-a")  # nothing answers there, as when the machine is off
            began = anyio.current_time()
            async with anyio.create_task_group() as sends:
                sends.start_soon(producer.send, "orders", b"held")
                await anyio.sleep(1.9)
                # Its client hears of the next master from no one, and finds it when the connection has taken too long.
                network.partition(producer.host, "namesrv-1")
                await promote(cluster, "broker-a", "host-3", 2)
                await anyio.sleep(0.1)
                network.heal()
                network.partition(producer.host, "broker-a")
            assert anyio.current_time() - began < 2 + MASTER_CONNECT_S
        assert producer.acknowledged.keys() == {b"before", b"held"}

    simulate(scenario, brokers=1)


def test_a_send_under_way_to_a_master_that_went_silent_goes_on_at_the_next_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        producer = await cluster.start_producer()
        consumer = await cluster.start_consumer("billing", "orders")
        await producer.send("orders", b"before")
        await anyio.sleep(5)
        network = cluster.simulation.network
        silent = network.partition(["broker-a"], [producer.host, consumer.host, "namesrv-1"])
        began = anyio.current_time()
        async with anyio.create_task_group() as sends:
            sends.start_soon(producer.send, "orders", b"under way")
            await anyio.sleep(0.3)
            await cluster.brokers["broker-a"].crash()
            await promote(cluster, "broker-a", "host-2", 2)
        assert anyio.current_time() - began < SEND_TIMEOUT_S / 2
        await anyio.sleep(2)
        assert set(consumer.bodies) == {b"before", b"under way"}
        silent.heal()

    simulate(scenario, brokers=1)


def test_a_client_does_not_go_back_to_an_earlier_master_that_a_name_server_still_lists(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        producer, group = await cluster.start_producer(), Group(cluster, ConsumeMode.PULL)
        deposed = RemotingClient()
        await group.start()
        await producer.send("orders", b"1")
        # The second name server does not get the registration of the next master, and that of the first one again.
        with cluster.simulation.network.partition("namesrv-2", ["broker-a", "host-2"]):
            await cluster.brokers["broker-a"].crash()
            await promote(cluster, "broker-a", "host-2", 2)
            topics = cluster.brokers["broker-a"].running.broker.topics.table.configs()
            first = broker("broker-a", *topics, address="broker-a:10911", set_id=SET_ID, epoch=1)
            await deposed.request(cluster.addresses[1], RequestCode.REGISTER_BROKER, *wire(first))
            await producer.send("orders", b"2")
            await anyio.sleep(1)
            await cluster.name_servers["namesrv-1"].crash()
            clients = [producer.producer._instance, *(member.consumer._instance for member in group.members)]
            routes = [instance.routes for instance in clients if instance is not None]
            for _ in range(6):
                await anyio.sleep(10)  # polls by which everyone asks the second one
                assert {each.address_of("broker-a") for each in routes} == {"host-2:10911"}
            await producer.send("orders", b"3")
            listed = cluster.name_servers["namesrv-2"].running.table.route("orders").brokers
            assert [each.addresses for each in listed] == [{0: "broker-a:10911"}]
        await deposed.aclose()
        await anyio.sleep(1)
        assert sorted(group.bodies()) == [b"1", b"2", b"3"]
        assert group.moved() == []

    for seed in range(2):
        simulate(scenario, brokers=1, name_servers=2, seed=seed)


def test_a_set_without_a_master_keeps_its_members_and_their_queues_however_long_it_takes(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        producer, group = await cluster.start_producer(), Group(cluster, ConsumeMode.PULL)
        await group.start()
        async with following(cluster, "broker-a", "host-2"):
            await cluster.brokers["broker-a"].crash()
            with pytest.raises(ConnectFailed):
                await producer.send("orders", b"refused", key="k")
            await anyio.sleep(2 * MASTER_KEPT_S + 30)
            assert group.moved() == []
            assert [len(member.queues) for member in group.members] == [2, 2]
            with pytest.raises(RlabError):
                await producer.send("orders", b"refused", key="k")
            await promote(cluster, "broker-a", "host-3", 2)
            await anyio.sleep(0.5)
            await producer.send("orders", b"taken", key="k")
            await anyio.sleep(1)
            assert group.bodies() == [b"taken"]
            assert group.moved() == []

    simulate(scenario, brokers=1)


def test_a_master_that_slept_through_an_election_does_not_open_the_log_of_the_later_epoch(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        await cluster.brokers["broker-a"].crash()
        await promote(cluster, "broker-a", "host-2", 3)
        await anyio.sleep(1)
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(1)
        cluster.masterships["broker-a"] = mastership(2)
        with pytest.raises(StoreEpochTooLow):
            await cluster.brokers["broker-a"].start("broker-a")

    simulate(scenario, brokers=1)


def test_a_batch_and_a_transaction_go_on_at_the_next_master_too(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await start_set(cluster)
        producer = await cluster.start_producer()
        transacting = await cluster.start_transaction_producer("pay", lambda message: TransactionState.COMMIT)
        consumer = await cluster.start_consumer("billing", "orders")
        await producer.send("orders", b"before")
        await anyio.sleep(5)
        async with following(cluster, "broker-a", "host-2"):
            await cluster.brokers["broker-a"].crash()

            async def send_batch() -> None:
                with cluster.simulation.on_host(producer.host):
                    await producer.producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])

            async def pay() -> None:
                with cluster.simulation.on_host(transacting.host):
                    async with transacting.producer.transaction(Message("orders", b"3")):
                        pass

            async with anyio.create_task_group() as sends:
                sends.start_soon(send_batch)
                sends.start_soon(pay)
                await anyio.sleep(1)
                await promote(cluster, "broker-a", "host-3", 2)
        await anyio.sleep(2)
        assert sorted(consumer.bodies) == [b"1", b"2", b"3", b"before"]

    simulate(scenario, brokers=1)
