"""Name servers and brokers as processes of a simulated cluster: started, stopped, crashed and started again.

A process is the shipped server on a host of its own. Stopping it does what SIGTERM does. Crashing it comes as near to
SIGKILL as one real process allows: its connections are reset, it can send nothing more, and its data directory is put
back to the moment of the crash, so that the next start finds nothing that a clean stop writes.

Invariant: a server that is restarted has the name and the data directory that it had before, and the address too unless
it is started on another host.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from broker.store.disk.files import Files
from model.event_log import EventSink
from model.events import Event
from testbed.simulation.kernel.run import Simulation

Running = TypeVar("Running")


class UnsyncedFiles(Files):
    """Files that never wait for the disk: a crash here ends the process, and the system keeps the written bytes.

    The process id, which a broker writes, is the same in every run: faults draw places in a file by its length.
    """

    is_shared = False

    def process_id(self) -> int:
        """Return the id that every simulated process has."""
        return 1

    def boot_id(self) -> str:
        """Return the id of the only run of every simulated machine; a power cut is a new one."""
        return "1"

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""

    def allocate(self, fd: int, size: int) -> None:
        """Do nothing: a crash copies every file."""


class SimulatedServer(Generic[Running]):
    """One server process on a host of its own.

    Args:
        tasks: the task group that runs it; it stays open as long as the server may run.
        name: its host, until it is started on another one.
        open_server: makes a new context manager of the server for every start; gets the sink for its events.
        data_dir: put back by a crash; None for a server that stores nothing.
        sink: gets the events of the server, but none from after a crash.
    """

    def __init__(
        self,
        simulation: Simulation,
        tasks: TaskGroup,
        name: str,
        port: int,
        open_server: Callable[[EventSink], AbstractAsyncContextManager[Running]],
        *,
        data_dir: Path | None,
        sink: EventSink,
    ) -> None:
        self.name = self.host = name
        self._port = port
        self._process: Running | None = None
        self._simulation = simulation
        self._tasks = tasks
        self._open_server = open_server
        self._data_dir = data_dir
        self._sink = sink
        self._killed = False
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    @property
    def process(self) -> Running | None:
        """The value of the server's context manager while it runs, else None."""
        return self._process

    @property
    def address(self) -> str:
        """`host:port`, for clients."""
        return f"{self.host}:{self._port}"

    @property
    def running(self) -> Running:
        """The value of the server's context manager; only while it runs."""
        assert self.process is not None, f"{self.name} does not run"
        return self.process

    @property
    def serves(self) -> bool:
        """Whether it runs and is not about to stop: while it stops it answers no request, and its deadlines pass."""
        return self.process is not None and not self._scope.cancel_called

    async def start(self, host: str | None = None) -> None:
        """Start it, on another host than before if one is given; returns once it listens.

        Raises:
            RlabError: the server refuses to start.

        Cancellation: it is stopped again.
        """
        assert self.process is None, f"{self.name} runs already"
        self._scope, self._ended, self._killed = anyio.CancelScope(), anyio.Event(), False
        if host is not None:
            self.host = host
        with self._simulation.on_host(self.host):
            self._process = await self._tasks.start(self._run)

    async def _run(self, task_status: TaskStatus[Running]) -> None:
        try:
            with self._scope:
                async with self._open_server(self._emit) as running:
                    task_status.started(running)
                    await anyio.sleep_forever()
        finally:
            self._process = None
            self._ended.set()

    def _emit(self, event: Event) -> None:
        if not self._killed:
            self._sink(event)

    async def stop(self) -> None:
        """End it as SIGTERM does: it unregisters and closes its files. Idempotent.

        Cancellation: it ends all the same.
        """
        self._scope.cancel()
        if self.process is not None:
            await self._ended.wait()

    async def crash(self, lose: Callable[[Path, Path], None] | None = None) -> None:
        """End it as SIGKILL does; see the module header.

        Args: lose: called with the data directory and a copy of it as it is now; removes from the copy the files that
            are lost with the process. The next start finds that copy.

        Cancellation: it ends, and its data directory may be that of a clean stop.
        """
        assert self.process is not None, f"{self.name} does not run"
        self._killed = True
        at_the_crash = self._copy_data()
        if lose is not None and self._data_dir is not None and at_the_crash is not None:
            lose(self._data_dir, at_the_crash)
        with self._simulation.network.stall(self.host):
            self._simulation.network.cut(self.host)
            await self.stop()
        if self._data_dir is not None and at_the_crash is not None:
            shutil.rmtree(self._data_dir)
            at_the_crash.rename(self._data_dir)

    def _copy_data(self) -> Path | None:
        """Copy everything that the server has written, synced or not."""
        if self._data_dir is None:
            return None
        copy = self._data_dir.with_name(f"{self._data_dir.name}.crashed")
        shutil.copytree(self._data_dir, copy)
        return copy
