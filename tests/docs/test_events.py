"""docs/events.md has every column and every kind, and says which columns a kind fills: compared with a run."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

import anyio
import pytest

from broker.groups.faults import make_fault_hook
from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from client.admin.admin import Admin
from client.allocate import AllocateMessageQueueAveragelyByCircle
from client.lite_pull.consumer import LitePullConsumer
from client.pop.consumer import PopConsumer
from client.transactions.transaction import Transaction
from model.errors import ClientIdConflict, NotAuthenticated, RlabError
from model.events import Event, EventKind
from model.heartbeat import ConsumeFrom
from model.limits import MAX_TRACE_BUFFER
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from model.offset_reset import ResetTo
from model.replica_set import Elect
from model.transaction import TransactionState
from remoting.client import RemotingClient
from remoting.faults.fault import parse_fault
from remoting.request_code import RequestCode
from replica.sets import elected
from testbed.simulation.cluster.access import SERVER_ACCESS
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.docs.pages import ROOT, table_of, text_of

pytestmark = pytest.mark.walk

PAGE = "docs/events.md"
SEGMENT_BYTES = 20_000
ALWAYS = ["t_ms", "node", "seq", "kind", "cause"]


def test_every_column_is_described_with_its_type_and_default() -> None:
    described = [(row["column"], row["type"], row["default"]) for row in table_of(PAGE, "The columns")]
    types, defaults = get_type_hints(Event), Event._field_defaults
    assert described == [
        (name, types[name].__name__, repr(defaults[name]).replace("'", '"') if name in defaults else "")
        for name in Event._fields
    ]


def test_every_kind_is_described_once_and_in_the_order_of_the_code() -> None:
    assert [row["kind"] for row in table_of(PAGE, "The kinds")] == [kind.value for kind in EventKind]


@pytest.mark.parametrize("kind", EventKind)
def test_the_side_that_emits_a_kind_is_the_one_whose_code_names_it(kind: EventKind) -> None:
    sides = [
        side
        for side in ("broker", "client", "replica")
        if any(
            re.search(rf"EventKind\.{kind}\b", path.read_text(encoding="utf-8")) for path in (ROOT / side).rglob("*.py")
        )
    ]
    described = {row["kind"]: row["node"] for row in table_of(PAGE, "The kinds")}
    assert described[kind].split(", ") == sides


async def pop_twice(cluster: SimulatedCluster) -> None:
    """Receive messages that may be delivered twice, acknowledge none, and ask for more."""
    with cluster.simulation.on_host("popper"):
        first = ConsumeFrom.FIRST_OFFSET
        async with PopConsumer(cluster.addresses, "p", consume_from=first, max_attempts=2) as consumer:
            await consumer.subscribe("t")
            for _ in range(8):
                await consumer.receive(invisible_s=1, wait_s=0.5)
                await anyio.sleep(1)


async def go_back(cluster: SimulatedCluster) -> None:
    """Poll, seek to the begin, and commit there."""
    with cluster.simulation.on_host("seeker"):
        async with LitePullConsumer(cluster.addresses, "l", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
            await consumer.subscribe("t")
            await consumer.poll(1)
            await consumer.commit()
            for queue in consumer.assignment():
                await consumer.seek_to_begin(queue)
            await consumer.commit()


async def store_nonsense(cluster: SimulatedCluster, producer: SimulatedProducer) -> None:
    """Store what is not a message, which no producer does."""
    instance = producer.producer._instance
    assert instance is not None
    connection = await instance.connect_master("broker-a", 1.0)
    header = {"topic": "t", "queue_id": 0, "tag_hash": 0}
    await connection.request(RequestCode.SEND_MESSAGE, header, b"nonsense", 1.0)


async def damage(cluster: SimulatedCluster, name: str) -> None:
    """Stop a broker, cut the file with most of its messages, and start it."""
    await cluster.brokers[name].stop()
    path = max((cluster.data_dir / name).glob("*.log"), key=lambda path: path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    await cluster.brokers[name].start()


async def end_in_each_way(cluster: SimulatedCluster) -> None:
    """Transactions that are committed, rolled back, asked about, and given up."""

    async def check(message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN

    producer = await cluster.start_transaction_producer("p", check)
    await anyio.sleep(1)
    with cluster.simulation.on_host(producer.host):
        for end in (Transaction.rollback, Transaction.unknown, lambda transaction: None):
            async with producer.producer.transaction(Message("t", b"x")) as transaction:
                end(transaction)
        await cluster.create_topic("deleted", queues=1)
        async with producer.producer.transaction(Message("deleted", b"x")) as transaction:
            transaction.unknown()
            for broker in cluster.brokers.values():
                broker.running.broker.topics.delete("deleted", "")
        row = (transaction.offset, transaction.message_id, TransactionState.COMMIT)
        assert transaction.queue is not None
        connection = producer.producer._masters[transaction.queue.broker_name]
        await producer.producer._ends.end(connection, row, anyio.current_time() + 3)
    await anyio.sleep(7)


async def break_connections(cluster: SimulatedCluster) -> None:
    """Lose heartbeats of a member on purpose."""
    running = cluster.brokers["broker-a"].running
    faults = make_fault_hook(running.server, running.broker.groups, running.broker.events, Random(0))
    for client in [consumer.client_id for consumer in cluster.consumers if consumer.live]:
        faults.begin(parse_fault({"do": "drop", "code": "HEART_BEAT", "group": "g", "client": client, "n": 1}))
    await anyio.sleep(12)
    faults.heal()


async def everything(cluster: SimulatedCluster) -> None:
    """A life in which each kind of event happens, with each of its columns filled at least once."""
    await cluster.create_topic("t", queues=2)
    first = await cluster.start_consumer("g", "t", work=lambda message: anyio.sleep(1))
    hanging = await cluster.start_consumer("h", "t", work=lambda message: anyio.sleep(1), consume_timeout_s=0.5)
    await cluster.wait_converged(1)
    producer = await cluster.start_producer()
    for queue in cluster.target("g"):
        await producer.send("t", b"x", queue=queue)
    await store_nonsense(cluster, producer)
    with cluster.simulation.on_host(producer.host):
        sent = await producer.producer.send(Message("t", b"later"), delay_ms=60_000)
        await producer.producer.recall("t", sent.recall_handle)
    await cluster.start_consumer("g", "t")
    await anyio.sleep(10)
    await hanging.stop()
    with cluster.simulation.on_host(first.host):
        first.consumer.suspend()
        first.consumer.resume()
    await first.subscribe("other")
    await anyio.sleep(1)
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            await admin.reset_offsets("g", "t", ResetTo.earliest())
            await admin.set_group("g", broadcast=False)
    await anyio.sleep(1)
    await cluster.start_consumer("g", "t", strategy=AllocateMessageQueueAveragelyByCircle())
    with pytest.raises(ClientIdConflict):
        await cluster.start_consumer("g", "t", client_ip=first.host, instance_name=first.client_id.split("@")[1])
    await pop_twice(cluster)
    await go_back(cluster)
    await end_in_each_way(cluster)
    await cluster.start_consumer("assigned", "t", assignment="broker")
    named: dict[str, Any] = {"host": "restarted", "instance_name": "fixed", "rejoin_within_s": 5.0}
    await (await cluster.start_consumer("g", "t", **named)).stop()
    await (await cluster.start_consumer("g", "t", client_ip="restarted", **named)).stop()
    await break_connections(cluster)
    await first.crash()
    await anyio.sleep(1)
    await cluster.brokers["broker-a"].stop()
    await cluster.brokers["broker-a"].start()
    await damage(cluster, "broker-b")
    await anyio.sleep(40)
    for consumer in cluster.consumers[1:]:
        if consumer.live:
            await consumer.stop()
    for broker in cluster.brokers:  # more than the limit of each: what the group has still to read is deleted
        for _ in range(9):
            await producer.send("t", bytes(SEGMENT_BYTES // 2), queue=MessageQueue("t", broker, 0))
    await anyio.sleep(15)
    await cluster.start_consumer("g", "t")
    await anyio.sleep(5)


async def lose_and_hand_over(cluster: SimulatedCluster) -> None:
    """A replica leaves the set and returns, becomes the master, and is lost with a message that only it has."""
    await anyio.sleep(1.0)
    await cluster.replicas["broker-a-2"].crash()
    await anyio.sleep(3.0)
    await cluster.replicas["broker-a-2"].start()
    await anyio.sleep(20.0)
    with cluster.simulation.on_host("broker-a-1"):
        await cluster.replicas["broker-a-1"].running.hand_over(2)
    await anyio.sleep(2.0)
    await cluster.create_topic("t", queues=1)
    producer = await cluster.start_producer()
    alone = cluster.simulation.network.partition("broker-a-1", "broker-a-2")
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            with suppress(RlabError):
                await producer.send("t", b"x")

        tasks.start_soon(send)
        await anyio.sleep(0.3)
        await cluster.replicas["broker-a-2"].crash()
        row = await cluster.register.read("broker-a")
        assert row is not None
        await cluster.register.write(elected(row, 1, accept_loss=False, master_answers=False), row.version)
        alone.heal()
    await cluster.replicas["broker-a-2"].start()
    await anyio.sleep(2.0)


def test_the_columns_of_a_kind_are_those_that_a_run_fills(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> list[Event]:
        retention = RetentionOptions(retain_bytes_max=2 * SEGMENT_BYTES)
        store = StoreOptions(segment_bytes=SEGMENT_BYTES)
        async with SimulatedCluster(simulation, tmp_path, retention=retention, store=store) as cluster:
            await everything(cluster)
        async with (
            SimulatedCluster(simulation, tmp_path / "guarded", brokers=1, **SERVER_ACCESS) as guarded,
            RemotingClient() as anonymous,
        ):
            with pytest.raises(NotAuthenticated):
                await anonymous.request(guarded.brokers["broker-a"].address, RequestCode.GET_SERVER_STATE)
        by_hand = {"elect": Elect.OPERATOR}
        async with SimulatedCluster(
            simulation, tmp_path / "copies", brokers=1, copies=2, set_options=by_hand
        ) as copies:
            await lose_and_hand_over(copies)
        return [*cluster.events, *guarded.events, *copies.events]

    events = run_simulation(main)
    filled: dict[str, set[str]] = {kind.value: set() for kind in EventKind}
    for event in events:
        filled[event.kind] |= {name for name in Event._fields if getattr(event, name) not in ("", -1)}
    described = {row["kind"]: [*ALWAYS, *row["columns"].split(", ")] for row in table_of(PAGE, "The kinds")}
    assert described == {kind: [name for name in Event._fields if name in names] for kind, names in filled.items()}


def test_every_reason_that_detail_may_name_is_reported() -> None:
    text = text_of(PAGE)
    assert all(word in text for word in ("unregister", "close", "expiry", "revoked", "shutdown", "lost", "known"))
    assert f"{MAX_TRACE_BUFFER:,} events" in text


def test_the_row_of_a_pass_links_to_the_table_of_all_triggers() -> None:
    (meaning,) = [row["meaning"] for row in table_of(PAGE, "The kinds") if row["kind"] == EventKind.REBALANCE_BEGIN]
    anchor = "what-keeps-a-group-right-when-something-is-lost"  # tests/docs/test_lists.py: this table has every trigger
    assert meaning.endswith(f"its [triggers](one-rebalance.md#{anchor}), joined by `+`.")
