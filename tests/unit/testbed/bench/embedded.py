"""A cluster in the simulation, as the measuring parts of a benchmark see theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from broker.broker import run_broker
from broker.config import BrokerConfig
from client.admin.admin import Admin
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from testbed.bench.kit.echo import EchoClient, connect_echo, echo_server
from testbed.bench.kit.rounds import Window
from testbed.simulation.kernel.run import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    name_server: str
    broker: str


@asynccontextmanager
async def embedded(simulation: Simulation, folder: Path, topic: str, queues: int) -> AsyncIterator[Embedded]:
    listen = "127.0.0.1:0"
    async with run_name_server(NameServerConfig(listen=listen)) as name_server:
        config = BrokerConfig(
            name="broker-a",
            data_dir=folder,
            name_servers=(name_server.address,),
            listen=listen,
            clock_ms=simulation.clock_ms,
        )
        async with run_broker(config) as broker, Admin(name_server.address) as admin:
            await anyio.sleep(1)  # it registers
            await admin.create_topic(topic, queues)
            yield Embedded(name_server=name_server.address, broker=broker.address)


async def done_and_stored(
    simulation: Simulation, cluster: Embedded, topic: str, work: Callable[[Window], Awaitable[None]]
) -> tuple[int, int]:
    """How much half a second of work did, and how many messages are stored after it."""
    window = Window()
    simulation.loop.call_later(0.5, window.close)
    await work(window)
    async with Admin(cluster.name_server) as admin:
        (broker,) = await admin.brokers()
        info = (await admin.broker_info(broker.broker_name)).topic(topic)
    assert info is not None
    return window.done, sum(queue.max_offset - queue.min_offset for queue in info.ranges)


@asynccontextmanager
async def echo_connected() -> AsyncIterator[EchoClient]:
    async with echo_server() as address:
        async with connect_echo(address) as client:
            yield client
        await anyio.sleep(1)  # the server sees the connection close


def quiet(what: str) -> None:
    """Progress that nobody looks at."""
