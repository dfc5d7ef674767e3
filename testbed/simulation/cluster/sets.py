"""Replica sets of a simulated cluster: each replica is a process on its own host, `broker-a-1` and so on.

A set takes the place of a single broker in `SimulatedCluster.brokers`, under the broker's name: its `process` is the
broker of the replica that is the master now. The register is in memory, and each replica has its own path to it, which
can fail.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyio.abc import TaskStatus

from broker.broker import RunningBroker
from broker.store.disk.errors import StoreFull
from model.errors import StorageFull
from replica.host import RunningReplica
from replica.registers.memory import RegisterFaults
from testbed.simulation.cluster.servers import SimulatedServer


class SimulatedReplica(SimulatedServer[RunningReplica]):
    """One replica of a set.

    Attributes:
        to_register: the faults of its path to the register.
        has_old_copy: whether an old copy of its directory was put back: then its start has to be refused.
        bad_starts: the reason for each start with a wrong outcome.
    """

    def __init__(self, to_register: RegisterFaults, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.to_register = to_register
        self.has_old_copy = False
        self.bad_starts: list[str] = []

    async def start(self, host: str | None = None) -> None:
        """See `SimulatedServer.start`."""
        await super().start(host)
        if self.has_old_copy and self.process is not None:
            self.bad_starts.append("an old copy of the directory was accepted")

    async def _run(self, task_status: TaskStatus[RunningReplica | None]) -> None:
        try:
            await super()._run(task_status)
        except Exception as error:  # whatever ends a process by itself is reported, and raised again
            first: BaseException = error
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            if not self.has_old_copy and not _of_full_disk(first):
                self.bad_starts.append(f"{type(first).__name__}: {first}")
            raise

    def kill(self, lose: Callable[[Path, Path], None] | None = None) -> None:
        """See `SimulatedServer.kill`: a process that is killed does not hand over, and writes to no register."""
        super().kill(lose)
        self.to_register.down = True
        if self.process is not None:
            self.process.hands_over_at_end = False

    async def crash(self, lose: Callable[[Path, Path], None] | None = None) -> None:
        """See `SimulatedServer.crash`."""
        try:
            await super().crash(lose)
        finally:
            self.to_register.down = False


def _of_full_disk(error: BaseException) -> bool:
    cause = error.__cause__
    return isinstance(error, (StoreFull, StorageFull)) or getattr(cause, "errno", None) == errno.ENOSPC


class SimulatedSet(SimulatedServer[RunningBroker]):
    """The replicas of one broker name in the place of one broker: its process is that of the master."""

    def __init__(self, name: str) -> None:
        self.name = self.host = name
        self.replicas: list[SimulatedReplica] = []

    @property
    def master(self) -> SimulatedReplica | None:
        """The replica that serves in the highest epoch; None without one."""
        master, epoch = None, -1
        for replica in self.replicas:  # a loop, because judges ask many times in each virtual second
            process = replica.process
            if process is not None and process.running is not None and process.epoch > epoch:
                master, epoch = replica, process.epoch
        return master

    @property
    def process(self) -> RunningBroker | None:
        """The broker of the master; None without one."""
        master = self.master
        return None if master is None else master.running.running

    @property
    def process_host(self) -> str:
        """The host of the master, or without a master that of the first replica."""
        return (self.master or self.replicas[0]).host

    @property
    def serves(self) -> bool:
        """Whether there is a master that is not about to stop."""
        master = self.master
        return master is not None and master.serves

    @property
    def address(self) -> str:
        """`host:port` of the master; of the first replica while there is none."""
        return (self.master or self.replicas[0]).address

    async def start(self, host: str | None = None) -> None:
        """Start every replica that does not run. Raises and cancellation: see `SimulatedServer.start`."""
        assert host is None, "each replica has a host of its own"
        for replica in self.replicas:
            if replica.is_down:
                await replica.start()

    async def crash(self, lose: Callable[[Path, Path], None] | None = None) -> None:
        """Kill the master. See `SimulatedReplica.crash`."""
        assert self.master is not None, f"{self.name} has no master"
        await self.master.crash(lose)

    async def stop(self) -> None:
        """Stop every replica, the master last. Idempotent. Cancellation: they end all the same."""
        for replica in sorted(self.replicas, key=lambda each: each is self.master):
            await replica.stop()
