"""Processes of a set of replicas, for benchmarks.

async with set_processes(2) as replicas:      # a name server with a register, a master and a replica in sync
async with replicas.joining("third") as child:
...                                   # one more begins to copy the log
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from client.admin.admin import Admin
from model.errors import RlabError, ServiceNotAvailable
from model.replica_info import ReplicaSetInfo
from model.replica_set import ReplicaSet
from process.children import Child, broker_name
from replica.registers.remote import RemoteRegister
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.processes import broker_process, create_topics, name_server_process, temporary_folder
from testbed.bench.throughput.send import QUEUES

SET = broker_name(0)
_JOIN_TIMEOUT_S = 60.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class BenchSet:
    """A set of replicas: its name server, its folder, its master, and the others that were there at first.

    `admin` and `register` are connected.
    """

    name_server: str
    admin: Admin
    register: RemoteRegister
    folder: Path
    master: Child
    others: tuple[Child, ...]

    @asynccontextmanager
    async def joining(self, label: str) -> AsyncIterator[Child]:
        """Run one more replica while the block runs, with an empty directory; it copies the log of the master.

        Raises:
            ServiceNotAvailable: it did not start.

        Cancellation: it is stopped.
        """
        async with broker_process(self.name_server, self.folder / label, "--replica-of", SET) as child:
            yield child


@asynccontextmanager
async def set_processes(copies: int) -> AsyncIterator[BenchSet]:
    """Run a set of replicas with the topic `TOPIC` while the block runs; when it begins, all are in sync.

    Raises:
        ServiceNotAvailable: a process did not start, or did not come into sync.

    Cancellation: all are stopped, and their files are removed.
    """
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(temporary_folder())
        name_server = await stack.enter_async_context(name_server_process("--elections", str(folder / "elections")))
        makes = ("--name", SET, "--copies", str(copies))
        master = await stack.enter_async_context(broker_process(name_server, folder / "master", *makes))
        joins = ("--replica-of", SET)
        others = [
            await stack.enter_async_context(broker_process(name_server, folder / f"replica-{n}", *joins))
            for n in range(2, copies + 1)
        ]
        await create_topics(name_server, {TOPIC: QUEUES})
        admin = await stack.enter_async_context(Admin(name_server))
        register = await stack.enter_async_context(RemoteRegister((name_server,)))
        await wait_in_sync(admin, copies)
        yield BenchSet(name_server, admin, register, folder, master, tuple(others))


async def wait_in_sync(admin: Admin, copies: int) -> ReplicaSetInfo:
    """Wait until this many replicas are in sync.

    Raises:
        ServiceNotAvailable: they are not within a minute.

    Cancellation: harmless.
    """
    return await _wait(admin, lambda row: len(row.in_sync) >= copies, f"not {copies} replicas of {SET} are in sync")


async def wait_alone(admin: Admin) -> ReplicaSet:
    """Wait until the master has removed all replicas that were stopped; returns its row. Raises: see `wait_in_sync`."""
    return (await _wait(admin, lambda row: row.in_sync == (row.master,), f"the master of {SET} is not alone")).row


async def _wait(admin: Admin, holds: Callable[[ReplicaSet], bool], otherwise: str) -> ReplicaSetInfo:
    with anyio.move_on_after(_JOIN_TIMEOUT_S):
        while True:
            try:
                info = await admin.replicas(SET)
            except RlabError:  # one that begins a role
                info = None
            if info is not None and holds(info.row):
                return info
            await anyio.sleep(_POLL_S)
    raise ServiceNotAvailable(f"{otherwise} after {_JOIN_TIMEOUT_S:g} s")
