"""Each kind of register, for two callers, with a way to lose answers and to restart it; test_contract.py uses them.

A register is entered inside the loop of the simulation; that in etcd in real time, because etcd is a process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import anyio
from aiohttp import ClientSession, web

from model.replica_set import ReplicaSet
from namesrv.config import NameServerConfig
from namesrv.elections import Elections, open_elections
from namesrv.server import NameServer, run_name_server
from replica.register import Register
from replica.registers.etcd import EtcdRegister
from replica.registers.etcd_place import EtcdPlace
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.registers.remote import RemoteRegister
from testbed.simulation.cluster.servers import SimulatedServer
from testbed.simulation.kernel.run import Simulation
from tests.tcp.etcd_server import EtcdServer

ADDRESSES = ("plain:9876", "keeper:9876")
"""The first name server keeps no elections."""


@dataclass
class Rig:
    """A register that is there for two callers.

    `lossy` loses the answers to the first caller in its block; `restart` restarts the keeper of the rows, after a crash
    where it can crash.
    """

    first: Register
    second: Register
    lossy: Callable[[], AbstractAsyncContextManager[None]]
    restart: Callable[[], Awaitable[None]]


Kind = Callable[[Simulation, Path], AbstractAsyncContextManager[Rig]]


async def nothing() -> None:
    """A register in memory is not restarted."""


@asynccontextmanager
async def all_arrives() -> AsyncIterator[None]:
    """In one process no answer is lost."""
    yield


@asynccontextmanager
async def in_memory(_: Simulation, __: Path) -> AsyncIterator[Rig]:
    faults, register = RegisterFaults(), MemoryRegister(register_id=5)

    @asynccontextmanager
    async def lossy() -> AsyncIterator[None]:
        faults.lose_answers = 1
        yield
        faults.lose_answers = 0

    yield Rig(register.seen_with(faults), register, lossy, nothing)


class File:
    """The file, which can be closed and opened again while callers have it."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        self.elections = self._opened()

    def _opened(self) -> Elections:
        return self._stack.enter_context(open_elections(self._directory, Random(1)))

    async def restart(self) -> None:
        self._stack.close()
        self.elections = self._opened()

    @property
    def addresses(self) -> tuple[str, ...]:
        return ()

    async def read(self, name: str) -> ReplicaSet | None:
        return await self.elections.read(name)

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        return await self.elections.write(new, expected_version)

    async def remove(self, name: str, expected_version: int) -> None:
        await self.elections.remove(name, expected_version)

    async def rows(self) -> list[ReplicaSet]:
        return await self.elections.rows()


@asynccontextmanager
async def in_a_file(_: Simulation, directory: Path) -> AsyncIterator[Rig]:
    with ExitStack() as stack:
        file = File(directory, stack)
        yield Rig(file, file, all_arrives, file.restart)


class OnHost:
    """A register whose caller is on a host of its own."""

    def __init__(self, register: Register, host: str, simulation: Simulation) -> None:
        self._register, self._host, self._simulation = register, host, simulation

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._register.addresses

    async def read(self, name: str) -> ReplicaSet | None:
        with self._simulation.on_host(self._host):
            return await self._register.read(name)

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        with self._simulation.on_host(self._host):
            return await self._register.write(new, expected_version)

    async def remove(self, name: str, expected_version: int) -> None:
        with self._simulation.on_host(self._host):
            await self._register.remove(name, expected_version)

    async def rows(self) -> list[ReplicaSet]:
        with self._simulation.on_host(self._host):
            return await self._register.rows()


@asynccontextmanager
async def at_a_name_server(simulation: Simulation, directory: Path) -> AsyncIterator[Rig]:
    plain = NameServerConfig(listen="0.0.0.0:9876")
    keeping = replace(plain, elections=directory, rng=Random(1))

    def server(name: str, config: NameServerConfig, data_dir: Path | None) -> SimulatedServer[NameServer]:
        return SimulatedServer(
            *(simulation, tasks, name, 9876, lambda _: run_name_server(config)), data_dir=data_dir, sink=print
        )

    async def restart() -> None:
        await servers[1].crash()
        await servers[1].start()

    @asynccontextmanager
    async def lossy() -> AsyncIterator[None]:
        with simulation.network.partition("keeper", "replica-1", one_way=True):
            yield

    async with (
        anyio.create_task_group() as tasks,
        RemoteRegister(ADDRESSES, rng=Random(1)) as first,
        RemoteRegister(ADDRESSES, rng=Random(2)) as second,
    ):
        servers = [server("plain", plain, None), server("keeper", keeping, directory)]
        for each in servers:
            await each.start()
        yield Rig(OnHost(first, "replica-1", simulation), OnHost(second, "replica-2", simulation), lossy, restart)
        for each in servers:
            await each.stop()


class LossyWay:
    """A way to etcd that loses the answers to changes while `loses` is set: etcd has applied them."""

    def __init__(self, etcd: str) -> None:
        self._etcd, self.loses = etcd, False

    async def forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with ClientSession() as session, session.post(f"http://{self._etcd}{request.path}", data=body) as answer:
            if self.loses and b"request_put" in body:
                assert request.transport is not None
                request.transport.abort()
            return web.Response(status=answer.status, body=await answer.read())


@asynccontextmanager
async def in_etcd(server: EtcdServer, prefix: str) -> AsyncIterator[Rig]:
    way = LossyWay(server.address)
    application = web.Application()
    application.router.add_post("/{path:.*}", way.forward)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [address] = runner.addresses

    @asynccontextmanager
    async def lossy() -> AsyncIterator[None]:
        way.loses = True
        yield
        way.loses = False

    async def restart() -> None:
        server.kill()
        assert server.start(), server.log

    lossy_place = EtcdPlace(endpoints=(f"127.0.0.1:{address[1]}",), prefix=prefix)
    straight = EtcdPlace(endpoints=(server.address,), prefix=prefix)
    async with EtcdRegister(lossy_place, rng=Random(1)) as first, EtcdRegister(straight, rng=Random(2)) as second:
        yield Rig(first, second, lossy, restart)
    await runner.cleanup()


KINDS: dict[str, Kind] = {"memory": in_memory, "file": in_a_file, "name server": at_a_name_server}
