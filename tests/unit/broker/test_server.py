"""A broker as a process: what it needs to start, how it bears bad peers and bad disks, and how it ends."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import anyio
import pytest

from broker.broker import Broker
from broker.config import BrokerConfig
from broker.durability.metadata import MetadataStore
from broker.server import SYNC_INTERVAL_S, run_broker
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.errors import ConfigError, ConnectionLost, QueryNotFound
from model.events import EventKind
from model.response_code import ResponseCode
from remoting.codec import CODEC
from remoting.wire.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from simulation.kernel.run import Simulation, run_simulation
from tests.unit.broker.harness import ADDRESS, HOST, FailingDisk, World, consumer, records, simulated


# --- starting --------------------------------------------------------------------------------------------------------
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


@simulated
async def test_a_broker_tells_the_port_that_it_got(world: World) -> None:
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


# --- a disk that fails -----------------------------------------------------------------------------------------------
@simulated
async def test_messages_are_made_durable_a_moment_after_they_are_written(world: World) -> None:
    broker = await world.start_broker()
    await world.peer("a").send()
    assert broker.store.synced_position < broker.store.written_position
    await anyio.sleep(2 * SYNC_INTERVAL_S)
    assert broker.store.synced_position == broker.store.written_position


def test_a_sync_that_fails_stops_the_sends_and_nothing_else_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def scenario(world: World) -> None:
        disk = FailingDisk()
        await world.start_broker(files=disk, trace=True)
        a = world.peer("a")
        await a.send()
        disk.sync_errno = errno.EIO
        await anyio.sleep(5)
        answer = await a.begin(RequestCode.SEND_MESSAGE, {"topic": "t", "queue_id": 0, "tag_hash": 0}, b"x")
        assert (await answer).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(records(await a.pull())) == 1
        assert await a.commit(1) == []
        await a.heartbeat(consumer())
        await anyio.sleep(5)
        assert await a.members() == [a.client_id]

    scenario(tmp_path)
    assert [record.levelname for record in caplog.records if record.name == "broker.server"].count("ERROR") == 1


# --- stopping --------------------------------------------------------------------------------------------------------
@simulated
async def test_a_broker_that_stops_ends_its_connections_and_answers_nobody_any_more(world: World) -> None:
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
