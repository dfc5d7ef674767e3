"""A broker as a whole: its trace, its counters, how it starts, bears bad peers, and ends."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import anyio
import pytest

from broker.broker import Broker, run_broker
from broker.config import BrokerConfig, Part
from broker.durability.metadata import MetadataStore
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.decode import decode_messages
from model.errors import ConfigError, ConnectionLost, QueryNotFound
from model.event_log import MAX_TEXT_CHARS, decode_events
from model.events import Event, EventKind
from model.message import tag_hash
from model.message_queue import MessageQueue
from model.names import HALF_TOPIC, SCHEDULE_TOPIC, STAGE_TOPIC, TEMPLATE_TOPIC, TRACE_TOPIC
from model.quirks import Quirk
from model.record import iter_records
from model.response_code import ResponseCode
from remoting.codec import CODEC
from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.broker.harness import (
    ADDRESS,
    HOST,
    FailingDisk,
    World,
    a_life,
    ask,
    consumer,
    operator,
    records,
    simulated,
)


# --- events ----------------------------------------------------------------------------------------------------------
def stored_trace(broker: Broker) -> list[tuple[int, list[Event]]]:
    """(tag hash, events) of each message in SYS_TRACE."""
    topic_id = broker.topics.table.existing(TRACE_TOPIC).topic_id
    body = broker.store.read(topic_id, 0, 0, max_n=1_000, max_bytes=2**30).body
    messages = decode_messages(MessageQueue(TRACE_TOPIC, "broker-a", 0), body)
    hashes = [record.tag_hash for record in iter_records(body)]
    return [(tag_hash, decode_events(message.body)[0]) for tag_hash, message in zip(hashes, messages, strict=True)]


@simulated
async def test_one_cause_joins_a_join_and_everything_that_it_sets_off(world: World) -> None:
    await world.start_broker()
    await world.peer("a").heartbeat(consumer(), cause="a@1/1")
    kinds = [event.kind for event in world.events if event.cause == "a@1/1"]
    assert kinds == [EventKind.ROUTE_CHANGED, EventKind.MEMBER_JOIN, EventKind.NOTIFY_SENT]


@simulated
async def test_a_lost_connection_is_one_cause_for_all_its_groups_and_leases(world: World) -> None:
    a, b, _ = await a_life(world)
    await b.lock(0)
    world.events.clear()
    world.simulation.network.cut("a")
    await world.sleep(1)
    leave, expired, reported = world.events
    assert (leave.kind, expired.kind, reported.kind) == ("MEMBER_LEAVE", "LOCK_EXPIRED", "NOTIFY_SENT")
    assert leave.id == leave.cause == expired.cause == reported.cause
    assert {header["cause"] for _, _, header in b.pushes[-2:]} == {leave.id}
    assert a.remoting.connected("10.0.0.1:10911") is None


@simulated
async def test_the_trace_is_stored_every_second_in_one_message_under_its_own_tag(world: World) -> None:
    broker = await world.start_broker(trace=True)
    await world.peer("a").heartbeat(consumer())
    await world.sleep(3)
    [(tag, events)] = stored_trace(broker)
    assert tag == tag_hash("broker")
    assert events == world.events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


@simulated
async def test_the_last_events_of_a_broker_that_stops_are_in_its_trace(world: World) -> None:
    await world.start_broker(trace=True)
    await world.stop_broker()
    broker = await world.start_broker(trace=True)
    kinds = [event.kind for _, events in stored_trace(broker) for event in events]
    assert kinds == [EventKind.BROKER_UP, EventKind.BROKER_DOWN]


@simulated
async def test_a_broker_that_is_started_again_uses_no_cause_a_second_time(world: World) -> None:
    causes = []
    for _ in range(3):
        await world.start_broker()
        causes.append(world.events[-1].cause)
        await world.stop_broker()
    assert causes == ["broker-a/1", "broker-a/1000000001", "broker-a/2000000001"]


@simulated
async def test_without_tracing_nothing_is_stored_and_nothing_piles_up(world: World) -> None:
    broker = await world.start_broker(trace=False)
    await world.peer("a").heartbeat(consumer())
    await world.sleep(3)
    assert (stored_trace(broker), broker.events.remove_all()) == ([], [])
    assert world.events


@simulated
async def test_a_trace_that_finds_no_room_waits_and_is_stored_in_order(world: World) -> None:
    disk = FailingDisk()
    broker = await world.start_broker(trace=True, files=disk)
    a = world.peer("a")
    disk.errno = errno.ENOSPC
    for topics in (("t",), ("u",), ("v",)):
        await a.heartbeat(consumer("g", *topics))
        await world.sleep(2)
    assert stored_trace(broker) == []
    disk.errno = None
    await world.sleep(2)
    [(_, events)] = stored_trace(broker)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert broker.events.dropped == 0


@simulated
async def test_a_long_trace_is_cut_into_messages_that_fit_a_frame(world: World) -> None:
    broker = await world.start_broker(trace=True)
    for n in range(2_500):
        broker.events.emit(EventKind.CLIENT_START, detail="x" * 5_000, n=n)
    await world.sleep(2)
    parts = [events for _, events in stored_trace(broker)]
    assert [len(events) for events in parts] == [1_000, 1_000, 501]
    answer = await world.peer("a").pull(TRACE_TOPIC)
    assert answer.code == ResponseCode.SUCCESS


@simulated
async def test_a_cause_as_long_as_a_frame_is_cut_before_everyone_is_sent_it(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.heartbeat(consumer(), cause="x" * 1_000_000)
    await world.sleep(1)
    [reported] = a.pushed(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert reported["cause"] == "x" * MAX_TEXT_CHARS
    assert max(len(event.cause) for event in world.events) == MAX_TEXT_CHARS


# --- idle ------------------------------------------------------------------------------------------------------------
@simulated
async def test_an_idle_broker_sleeps_from_deadline_to_deadline(world: World) -> None:
    # Retention looks every second whether a segment was finished.
    broker = await world.start_broker(parts=frozenset(Part) - {Part.RETENTION})
    a = world.peer("a")
    calls: list[float] = []
    act = broker.driver._act
    broker.driver._act = lambda now: (calls.append(now), act(now))[1]  # type: ignore[func-returns-value]
    await a.heartbeat(consumer(session_timeout_s=100.0))
    await world.sleep(90)
    await a.heartbeat(consumer(session_timeout_s=100.0))
    await world.sleep(90)
    assert len(calls) <= 4


# --- what an operator asks of a broker -------------------------------------------------------------------------------
@simulated
async def test_the_state_of_a_broker_reports_its_load(world: World) -> None:
    a = await operator(world, quirks=frozenset({Quirk.SILENT_EXPIRY}))
    await a.send(queue_id=1)
    await a.heartbeat(consumer(), producer_groups=("p", "q"))
    held = await a.begin_pull(suspend_ms=15_000)
    info = await ask(a, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert {key: info[key] for key in ("name", "cluster", "groups", "held_pulls", "producers", "quirks")} == {
        "name": "broker-a",
        "cluster": "DefaultCluster",
        "groups": 1,
        "held_pulls": 1,
        "producers": 2,
        "quirks": ["SILENT_EXPIRY"],
    }
    assert not held.done()
    assert info["uptime_s"] == pytest.approx(world.now, abs=0.1)
    topics = {name: (read, write, perm, ranges) for name, read, write, perm, ranges in info["topics"]}
    assert topics["t"] == (4, 4, 6, [[0, 0], [0, 1], [0, 0], [0, 0]])
    assert sorted(topics) == ["%RETRY%g", HALF_TOPIC, SCHEDULE_TOPIC, STAGE_TOPIC, TRACE_TOPIC, TEMPLATE_TOPIC, "t"]


@simulated
async def test_clients_that_are_gone_are_not_counted(world: World) -> None:
    a = await operator(world)
    b = world.peer("b")
    await b.heartbeat(producer_groups=("p",))
    assert (await ask(a, RequestCode.GET_BROKER_RUNTIME_INFO))["producers"] == 1
    await b.close()
    await world.sleep(1)
    assert (await ask(a, RequestCode.GET_BROKER_RUNTIME_INFO))["producers"] == 0


@simulated
async def test_a_health_check_reports_who_answers(world: World) -> None:
    a = await operator(world)
    header = (await a.call(RequestCode.GET_SERVER_STATE)).header
    assert (header["kind"], header["name"]) == ("broker", "broker-a")
    assert header["uptime_s"] == pytest.approx(world.now, abs=0.1)


# --- starting --------------------------------------------------------------------------------------------------------
@pytest.mark.walk
def test_every_request_that_is_sent_to_brokers_has_a_handler_and_no_other(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        config = BrokerConfig(name="broker-a", data_dir=tmp_path, clock_ms=simulation.clock_ms)
        with (
            MessageStore.open(tmp_path, StoreOptions(), simulation.clock_ms) as store,
            MetadataStore(tmp_path) as metadata,
        ):
            served = Broker(config, store, metadata, simulation.loop).features.handlers()
        wanted = [code for code, schema in SCHEMA.items() if schema.sender.endswith(("-> broker", "-> any server"))]
        assert sorted(served) == sorted(wanted)

    run_simulation(main)


@pytest.mark.walk
def test_every_table_and_number_is_replicated_but_the_readings_of_a_clock(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        config = BrokerConfig(name="broker-a", data_dir=tmp_path, clock_ms=simulation.clock_ms)
        with (
            MessageStore.open(tmp_path, StoreOptions(), simulation.clock_ms) as store,
            MetadataStore(tmp_path) as metadata,
        ):
            Broker(config, store, metadata, simulation.loop).features.close()
            metadata.commit()
            declared = metadata.declared
            local = {
                table if number == "" else number for (table, number), is_copied in declared.items() if not is_copied
            }
            assert local == {"clock_jumps", "clock_seen_ms"}
            tables = {name for (name,) in metadata.rows("select name from sqlite_master where type = 'table'")}
            assert tables == {table for table, _ in declared}
            numbers = {name for (name,) in metadata.rows("select name from numbers")}
            assert numbers <= {number for _, number in declared}

    run_simulation(main)


@simulated
async def test_a_broker_reports_the_port_that_it_got(world: World) -> None:
    config = BrokerConfig(name="broker-b", data_dir=world.data_dir, listen=f"{HOST}:0", clock_ms=lambda: 0)
    async with run_broker(config) as running:
        host, _, port = running.address.partition(":")
        assert (running.name, host) == ("broker-b", HOST)
        assert int(port) > 0


@simulated
async def test_a_port_that_is_taken_is_an_error_that_names_it_and_lets_the_directory_go(world: World) -> None:
    await world.start_broker()
    directory = world.data_dir / "other"
    for listen in (ADDRESS, f"{HOST}:20911"):
        config = BrokerConfig(name="broker-b", data_dir=directory, listen=listen, clock_ms=lambda: 0)
        if listen == ADDRESS:
            with pytest.raises(ConfigError, match=f"cannot listen on {ADDRESS}.*another process"):
                await run_broker(config).__aenter__()
        else:
            async with run_broker(config) as running:
                assert running.address == listen


@simulated
async def test_a_directory_that_another_broker_has_is_refused(world: World) -> None:
    await world.start_broker()
    config = BrokerConfig(name="broker-b", data_dir=world.data_dir, listen=f"{HOST}:20911", clock_ms=lambda: 0)
    with pytest.raises(ConfigError, match="in use"):
        await run_broker(config).__aenter__()


@simulated
async def test_a_directory_with_something_else_in_it_is_refused_and_left_alone(world: World) -> None:
    (world.data_dir / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError):
        await world.start_broker()
    assert [path.name for path in world.data_dir.iterdir()] == ["thesis.txt"]


@simulated
async def test_the_error_of_the_block_comes_out_as_itself(world: World) -> None:
    config = BrokerConfig(name="broker-b", data_dir=world.data_dir, listen=f"{HOST}:0", clock_ms=lambda: 0)
    with pytest.raises(QueryNotFound, match="mine"):
        async with run_broker(config):
            raise QueryNotFound("mine")


# --- bad peers -------------------------------------------------------------------------------------------------------
class Vandal(asyncio.Protocol):
    """Sends these bytes, and notes what comes of it."""

    def __init__(self, garbage: bytes) -> None:
        self.received = bytearray()
        self.closed = False
        self._garbage = garbage

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._garbage)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", bytes(64), b"\xff" * 64, b"\x00\x00\x00\x02\xc1\xc1", b"\x00\x00\x00\x01\x90"],
)
@simulated
async def test_garbage_costs_its_sender_the_connection_and_others_nothing(world: World, garbage: bytes) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.put_topic()
    await a.heartbeat(consumer())
    await b.heartbeat(consumer())
    held = await a.begin_pull(suspend_ms=15_000)
    with world.simulation.on_host("vandal"):
        _, vandal = await world.simulation.loop.create_connection(lambda: Vandal(garbage), HOST, 10911)
    await anyio.sleep(1)
    assert isinstance(vandal, Vandal)
    [parting] = CODEC.decoder().feed(bytes(vandal.received))
    assert (parting.code, vandal.closed) == (ResponseCode.PROTOCOL_ERROR, True)
    assert await b.members() == [a.client_id, b.client_id]
    assert not held.done()
    await b.send()
    assert len(records(await held)) == 1


@pytest.mark.walk
@simulated
async def test_a_handler_that_meets_nonsense_costs_its_caller_an_error_and_others_nothing(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    for code in RequestCode:
        for header in ({}, {"group": "g", "client_id": "x", "topic": "t", "queue_id": 2**64 - 1, "groups": []}):
            for body in (None, b"", b"\xc1", b"\x90", b"\x91\x90"):
                answer = await (await a.begin(code, header, body))
                assert answer.code != ResponseCode.SYSTEM_ERROR, (code, header, body)
    assert await a.send() == 0


# --- stopping --------------------------------------------------------------------------------------------------------
@simulated
async def test_a_broker_that_stops_ends_its_connections_and_answers_no_one_any_more(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    held = await a.begin_pull("SYS_TRACE", suspend_ms=60_000)
    await anyio.sleep(1)
    await world.stop_broker()
    await anyio.sleep(1)
    assert isinstance(held.exception(), ConnectionLost)
    assert [event.kind for event in world.events] == [EventKind.BROKER_UP, EventKind.BROKER_DOWN]


@simulated
async def test_a_broker_whose_task_is_cancelled_keeps_everything_that_it_acknowledged(world: World) -> None:
    config = BrokerConfig(
        name="broker-a", data_dir=world.data_dir, listen=ADDRESS, clock_ms=world.simulation.clock_ms, trace=False
    )
    a = world.peer("a")

    async def run() -> None:
        with world.simulation.on_host(HOST):
            async with run_broker(config):
                await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.sleep(0.1)
        assert [await a.send() for _ in range(3)] == [0, 1, 2]
        await a.commit(2)
        tasks.cancel_scope.cancel()
    await world.start_broker()
    await anyio.sleep(0.5)
    assert len(records(await a.pull())) == 3
    assert await a.committed() == 2
