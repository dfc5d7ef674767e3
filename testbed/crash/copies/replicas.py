"""The processes of one set of replicas, and the commands of its operator."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE

import anyio

from client.admin.admin import Admin
from model.errors import RlabError, ServiceNotAvailable
from model.replica_info import ReplicaSetInfo
from process.children import MODULE, broker_name
from testbed.cluster.registered import wait_registered
from testbed.cluster.whole import is_whole
from testbed.crash.brokers import BrokerProcess

SET = broker_name(0)
WHOLE_TIMEOUT_S = 120.0
"""Time limit until all replicas are in sync again: one that left often has to be stable for a minute first."""
_POLL_S = 0.05


class SetProcesses:
    """The replicas of `SET`, all on this machine; made by `run_set`."""

    def __init__(self, name_server: str, admin: Admin, processes: Sequence[BrokerProcess]) -> None:
        self.processes = tuple(processes)
        self._name_server = name_server
        self._admin = admin

    def at(self, address: str) -> BrokerProcess:
        """The process that listens on an address."""
        return next(process for process in self.processes if process.address == address)

    async def wait_whole(self) -> ReplicaSetInfo:
        """Wait until the master answers, and all replicas are in sync and connected to it.

        Raises:
            ServiceNotAvailable: they are not within `WHOLE_TIMEOUT_S`.

        Cancellation: harmless.
        """
        seen = "no replica answers"
        with anyio.move_on_after(WHOLE_TIMEOUT_S):
            while True:
                try:
                    info = await self._admin.replicas(SET)
                except RlabError as error:
                    seen = str(error)
                else:
                    if is_whole(info, len(self.processes)):
                        return info
                    seen = "; ".join(f"{each.replica_id} {each.role} {each.state}" for each in info.replicas)
                await anyio.sleep(_POLL_S)
        raise ServiceNotAvailable(f"not all replicas of {SET} are in sync after {WHOLE_TIMEOUT_S:g} s: {seen}")

    async def hand_over(self, to: int) -> None:
        """Let the master hand over to a replica. Raises: RlabError. Cancellation: it may be done."""
        await self._admin.hand_over(SET, to)

    async def lose(self, process: BrokerProcess, lost_id: int) -> None:
        """Delete the directory of a master that was killed, and wait until another replica is the master.

        Raises:
            ServiceNotAvailable: no other one is within `WHOLE_TIMEOUT_S`.

        Cancellation: the directory is deleted.
        """
        shutil.rmtree(process.data)
        with anyio.move_on_after(WHOLE_TIMEOUT_S):
            while True:
                with suppress(RlabError):  # no replica serves yet
                    if (await self._admin.replicas(SET)).row.master != lost_id:
                        return
                await anyio.sleep(_POLL_S)
        raise ServiceNotAvailable(f"no replica of {SET} took over within {WHOLE_TIMEOUT_S:g} s")

    async def join_again(self, process: BrokerProcess, lost_id: int) -> None:
        """Forget a replica whose directory was deleted, and start its process as a new one.

        Raises:
            ServiceNotAvailable: the command of the operator failed, or the process does not start.

        Cancellation: some of it is done.
        """
        await self._operate("forget", SET, "--replica", str(lost_id))
        await process.start()

    async def _operate(self, *words: str) -> None:
        command = [*MODULE, "rlab", "broker", *words, "--namesrv", self._name_server]
        done = await anyio.run_process(command, stdout=PIPE, stderr=PIPE, check=False)
        if done.returncode != 0:
            raise ServiceNotAvailable(f"'rlab broker {' '.join(words)}' failed: {done.stderr.decode().strip()}")

    async def wait_registered(self) -> None:
        """Wait until the name server lists all replicas. Raises: ServiceNotAvailable. Cancellation: harmless."""
        await wait_registered(self._admin, [process.address for process in self.processes])


@asynccontextmanager
async def run_set(
    name_server: str, admin: Admin, directory: Path, copies: int, options: Sequence[str]
) -> AsyncIterator[SetProcesses]:
    """Run a set of replicas while the block runs; at its begin all are in sync.

    `options` are further ones of each `rlab broker`. Data and logs are in the directory.

    Raises:
        ServiceNotAvailable: a process did not start, or did not come into sync.

    Cancellation: all processes are stopped; the files stay.
    """
    common = ("--namesrv", name_server, *options)
    makes, joins = ["--name", SET, "--copies", str(copies), *common], ["--replica-of", SET, *common]
    names = [f"{SET}-{n}" for n in range(1, copies + 1)]
    processes = [BrokerProcess(name, directory / name, directory / f"{name}.log", joins) for name in names]
    processes[0].arguments = makes
    async with _stopped_together(processes):
        await processes[0].start()
        processes[0].arguments = joins  # the set is made: a later start goes on, or joins with an empty directory
        await start_all(processes[1:])
        replicas = SetProcesses(name_server, admin, processes)
        await replicas.wait_registered()
        await replicas.wait_whole()
        yield replicas


@asynccontextmanager
async def _stopped_together(processes: Sequence[BrokerProcess]) -> AsyncIterator[None]:
    """Stop all processes at the end at the same time, as a machine does that is shut down."""
    for process in processes:
        await process.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for process in processes:
                    tasks.start_soon(process.__aexit__)


async def start_all(processes: Sequence[BrokerProcess]) -> None:
    """Start processes at the same time. Raises: ServiceNotAvailable. Cancellation: they keep running."""
    failures: list[ServiceNotAvailable] = []

    async def start(process: BrokerProcess) -> None:
        try:
            await process.start()
        except ServiceNotAvailable as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for process in processes:
            tasks.start_soon(start, process)
    if failures:
        raise failures[0]
