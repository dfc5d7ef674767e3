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
from model.replica_set import NO_MASTER, ReplicaSet
from process.children import Child, broker_name
from replica.registers.remote import RemoteRegister
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.processes import broker_process, create_topics, name_server_process, temporary_folder
from testbed.bench.throughput.send import QUEUES
from testbed.cluster.whole import is_whole

SET = broker_name(0)
MASTER = "master"
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

    def labelled(self) -> list[tuple[str, Child]]:
        """The processes that were there at first, each with the name of its directory in `folder`."""
        return [(MASTER, self.master), *((_label(n), child) for n, child in enumerate(self.others, 2))]

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
async def set_processes(copies: int, *options: str) -> AsyncIterator[BenchSet]:
    """Run a set of replicas with the topic `TOPIC` while the block runs; when it begins, all are in sync.

    `options` are further ones of each `rlab broker`.

    Raises:
        ServiceNotAvailable: a process did not start, or did not come into sync.

    Cancellation: all are stopped, and their files are removed.
    """
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(temporary_folder())
        name_server = await stack.enter_async_context(name_server_process("--elections", str(folder / "elections")))
        makes = ("--name", SET, "--copies", str(copies), *options)
        master = await stack.enter_async_context(broker_process(name_server, folder / MASTER, *makes))
        joins = ("--replica-of", SET, *options)
        others = [
            await stack.enter_async_context(broker_process(name_server, folder / _label(n), *joins))
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
    return await _wait(
        admin, lambda info: len(info.row.in_sync) >= copies, f"not {copies} replicas of {SET} are in sync"
    )


async def wait_whole(admin: Admin, copies: int) -> ReplicaSetInfo:
    """Wait until all replicas are in sync and connected to the master. Raises: see `wait_in_sync`."""
    return await _wait(admin, lambda info: is_whole(info, copies), f"not {copies} replicas of {SET} follow its master")


async def wait_master(admin: Admin, other_than: int) -> ReplicaSetInfo:
    """Wait until another replica than this one is the master. Raises: see `wait_in_sync`."""
    return await _wait(admin, lambda info: info.row.master not in (NO_MASTER, other_than), f"{SET} has no new master")


async def wait_alone(admin: Admin) -> ReplicaSet:
    """Wait until the master has removed all replicas that were stopped; returns its row. Raises: see `wait_in_sync`."""
    return (
        await _wait(admin, lambda info: info.row.in_sync == (info.row.master,), f"the master of {SET} is not alone")
    ).row


async def _wait(admin: Admin, holds: Callable[[ReplicaSetInfo], bool], otherwise: str) -> ReplicaSetInfo:
    with anyio.move_on_after(_JOIN_TIMEOUT_S):
        while True:
            try:
                info = await admin.replicas(SET)
            except RlabError:  # one that begins a role
                info = None
            if info is not None and holds(info):
                return info
            await anyio.sleep(_POLL_S)
    raise ServiceNotAvailable(f"{otherwise} after {_JOIN_TIMEOUT_S:g} s")


def _label(number: int) -> str:
    return f"replica-{number}"
