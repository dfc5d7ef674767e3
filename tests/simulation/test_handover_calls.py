"""Every call of a client goes on at the next master: none fails because a set of replicas hands over."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import anyio
import pytest

from client.admin.admin import Admin
from client.listeners.listener import ConsumeResult
from client.lite_pull.consumer import LitePullConsumer
from client.pop.consumer import PopConsumer
from client.produce.producer import Producer
from client.transactions.producer import TransactionProducer
from model.assignment import RequestMode
from model.errors import NotMaster, RlabError
from model.limits import REQUEST_TIMEOUT_S
from model.message import Message
from model.message_queue import MessageQueue
from model.offset_reset import ResetTo
from model.topic_route import MessageType
from model.transaction import TransactionState
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import PAIR, row_of, the_set, wait_in_sync

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

QUEUE = MessageQueue("orders", "broker-a", 0)
Call = Callable[[], Awaitable[object]]
OTHERS = {
    "admin": {"start", "shutdown", "forget_broker", "hand_over"},
    "producer": {"start", "shutdown", "queues"},
    "popper": {"start", "shutdown", "subscribe"},
    "lite": {
        *("start", "shutdown", "subscribe", "assign", "persist_offsets", "seek", "seek_to_begin"),
        *("register_topic_message_queue_change_listener", "fetch_topic_message_queues_and_compare"),
    },
}
"""Calls that go to name servers alone, are about the life of a client, or do the same as another one."""


class Calls:
    """The calls of clients, each by its name; a call makes what it needs itself, and undoes nothing."""

    def __init__(
        self,
        producer: Producer,
        transacting: TransactionProducer,
        popper: PopConsumer,
        lite: LitePullConsumer,
        admin: Admin,
    ) -> None:
        self.producer, self.transacting, self.popper, self.lite, self.admin = producer, transacting, popper, lite, admin
        self.numbers = count(1)

    def message(self) -> Message:
        return Message("orders", b"%d" % next(self.numbers), keys=("k",))

    def all(self) -> dict[str, Call]:
        found: dict[str, Call] = {}
        for name in dir(self):
            if name.startswith("call_"):
                found[name.removeprefix("call_")] = getattr(self, name)
        return found

    # --- producers ---------------------------------------------------------------------------------------------------

    async def call_send(self) -> None:
        await self.producer.send(self.message())

    async def call_send_with_key(self) -> None:
        await self.producer.send(self.message(), key="k")

    async def call_send_several(self) -> None:
        async with anyio.create_task_group() as sends:
            for _ in range(8):
                sends.start_soon(self.producer.send, self.message())

    async def call_send_later(self) -> None:
        await self.producer.send(self.message(), delay_ms=1000)

    async def call_recall(self) -> None:
        sent = await self.producer.send(self.message(), delay_ms=600_000)
        await self.producer.recall("orders", sent.recall_handle)

    async def call_send_oneway(self) -> None:
        await self.producer.send_oneway(self.message())

    async def call_send_batch(self) -> None:
        await self.producer.send_batch([self.message(), self.message()])

    async def call_transaction(self) -> None:
        async with self.transacting.transaction(self.message()):
            await anyio.sleep(0.01)

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def call_receive_and_ack(self) -> None:
        for message in await self.popper.receive(4, wait_s=1.0):
            handle = await self.popper.extend(message, 30.0)
            await self.popper.ack([handle])

    async def call_receive_what_is_there(self) -> None:
        await self.popper.ack(await self.popper.receive(4, wait_s=0))

    async def call_dead_letter(self) -> None:
        for message in await self.popper.receive(1, wait_s=1.0):
            await self.popper.dead_letter(message)

    async def call_poll_and_commit(self) -> None:
        await self.lite.poll(0.1)
        await self.lite.commit()

    async def call_committed(self) -> None:
        await self.lite.committed(QUEUE)

    async def call_offset_for_timestamp(self) -> None:
        await self.lite.offset_for_timestamp(QUEUE, 1)

    async def call_seek(self) -> None:
        await self.lite.seek_to_end(QUEUE)

    async def call_fetch_message_queues(self) -> None:
        await self.lite.fetch_message_queues("orders")

    # --- operators ---------------------------------------------------------------------------------------------------

    async def call_topics_of_an_operator(self) -> None:
        topic = f"made-{next(self.numbers)}"
        await self.admin.create_topic(topic, queues=2)
        await self.admin.scale_topic(topic, read=4)
        await self.admin.set_topic(topic, message_type=MessageType.NORMAL)
        await self.admin.delete_topic(topic)

    async def call_routes(self) -> None:
        await self.admin.route("orders")
        await self.admin.broker_info("broker-a")
        await self.admin.clock_ms("orders")

    async def call_lists(self) -> None:
        await self.admin.brokers()
        await self.admin.topics()
        await self.admin.routes(["orders"])
        await self.admin.absent_brokers()
        await self.admin.missing_trace()
        await self.admin.replicas("broker-a")

    async def call_groups_that_are_deleted(self) -> None:
        group = f"made-{next(self.numbers)}"
        await self.admin.reset_offsets(group, "orders", ResetTo.earliest(), create=True)
        await self.admin.delete_group(group)

    async def call_allow_writes(self) -> None:
        await self.admin.allow_writes("broker-a", allowed=True)

    async def call_groups(self) -> None:
        await self.admin.groups()
        await self.admin.group("billing")
        await self.admin.progress("billing")
        await self.admin.assignment("billing")

    async def call_set_group(self) -> None:
        await self.admin.set_group("billing", max_attempts=2)

    async def call_set_request_mode(self) -> None:
        await self.admin.set_request_mode("resting", "orders", RequestMode.PULL)

    async def call_reset_offsets(self) -> None:
        await self.admin.reset_offsets("resting", "orders", ResetTo.earliest(), create=True)

    async def call_producer_groups(self) -> None:
        await self.admin.producer_groups()
        await self.admin.producer_group("pay")

    async def call_messages(self) -> None:
        result = await self.producer.send(self.message())
        await self.admin.read_queue(QUEUE, offset=0, max_n=4)
        await self.admin.read_queue(QUEUE, since_ms=1, max_n=4)
        assert (await self.admin.view_message(result.message_id)).messages
        await self.admin.query_message("orders", "k")

    async def call_dead_letters(self) -> None:
        letters = self.admin.dead_letters("billing")
        await letters.queues()
        async for letter in letters.letters():
            await letters.resend([letter])
            break


class Walk:
    """Repeats each call, one after the other; the errors of each, and how often it was made."""

    def __init__(self, calls: dict[str, Call]) -> None:
        self.failed: dict[str, list[str]] = {}
        self.n = dict.fromkeys(calls, 0)
        self._calls = calls
        self._is_over = False

    async def _repeat(self, name: str, call: Call) -> None:
        while not self._is_over:
            try:
                await call()
            except RlabError as error:
                self.failed.setdefault(name, []).append(f"{type(error).__name__}: {error}")
            self.n[name] += 1
            await anyio.sleep(0.01)

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """The calls from a moment before the block to some time after it."""
        self._is_over = False
        async with anyio.create_task_group() as tasks:
            for name, call in self._calls.items():
                tasks.start_soon(self._repeat, name, call)
            await anyio.sleep(0.1)
            yield
            await anyio.sleep(0.4)
            self._is_over = True


@asynccontextmanager
async def walking(cluster: SimulatedCluster) -> AsyncIterator[Walk]:
    """A set of two replicas, clients of every kind, and a walk through all of their calls."""
    await wait_in_sync(cluster, 1, 2)
    await cluster.create_topic("orders", queues=2)

    async def fail(messages: object) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER

    await cluster.start_consumer("billing", "orders", listener=fail, retry_delay_ms=100, max_attempts=2)
    producer = (await cluster.start_producer(host="clients")).producer
    started = await cluster.start_transaction_producer("pay", lambda message: TransactionState.UNKNOWN, host="clients")
    popper = (await cluster.start_popper("popping", "orders", host="clients")).consumer
    transacting = started.producer
    assert isinstance(transacting, TransactionProducer)
    with cluster.simulation.on_host("clients"):
        async with (
            Admin(cluster.addresses) as admin,
            LitePullConsumer(cluster.addresses, "polling", instance_name="lite") as lite,
        ):
            await lite.subscribe("orders")
            await producer.send(Message("orders", b"0"))
            await anyio.sleep(5.0)  # until it is a dead letter
            yield Walk(Calls(producer, transacting, popper, lite, admin).all())


async def hand_over(cluster: SimulatedCluster) -> None:
    """Ask the master to hand over."""
    master = the_set(cluster).master
    assert master is not None
    with cluster.simulation.on_host(master.host):
        await master.running.hand_over()


async def stop(cluster: SimulatedCluster) -> None:
    """Stop the process of the master, as SIGTERM does."""
    master = the_set(cluster).master
    assert master is not None
    await master.stop()


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Admin, "admin"), (Producer, "producer"), (PopConsumer, "popper"), (LitePullConsumer, "lite")],
)
def test_the_walk_has_each_call_of_a_client(kind: type, name: str) -> None:
    calls = {each for each, found in vars(kind).items() if inspect.iscoroutinefunction(found) and each[0] != "_"}
    walked = set(re.findall(rf"\bself\.{name}\.(\w+)\(", inspect.getsource(Calls)))
    assert calls - walked == OTHERS.get(name, set()) & calls


@pytest.mark.parametrize("way", [hand_over, stop])
def test_no_call_of_a_client_fails_while_the_master_hands_over(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, way: Callable[[SimulatedCluster], Awaitable[None]]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with walking(cluster) as walk:
            for _ in range(3):
                async with walk.around():
                    await way(cluster)
                for replica in the_set(cluster).replicas:
                    if replica.process is None:
                        await replica.start()
                await wait_in_sync(cluster, 1, 2)
        assert (await row_of(cluster)).epoch == 4
        assert not walk.failed
        assert min(walk.n.values()) >= 6, walk.n

    caplog.set_level(logging.WARNING, "client")
    simulate(scenario, **PAIR)
    assert not [each for each in caplog.messages if "left to the check" in each or "sent back" in each]


def test_a_short_receive_finds_nothing_while_a_handover_lasts_and_fails_when_it_lasts_too_long(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2)
        await cluster.create_topic("orders", queues=2)
        popper = (await cluster.start_popper("popping", "orders", host="clients")).consumer
        master = the_set(cluster).master
        assert master is not None
        mastering = master.running.mastering
        assert mastering is not None
        mastering.sender.refuse(NotMaster("it hands over, and the register does not answer"))
        until = anyio.current_time() + 0.9 * REQUEST_TIMEOUT_S
        while anyio.current_time() < until:
            assert await popper.receive(4, wait_s=0) == []
            await anyio.sleep(0.01)
        await anyio.sleep(0.1 * REQUEST_TIMEOUT_S)
        with pytest.raises(NotMaster):
            await popper.receive(4, wait_s=0)
        mastering.sender.refuse(None)
        await anyio.sleep(1.0)
        assert await popper.receive(4, wait_s=0) == []

    simulate(scenario, **PAIR)
