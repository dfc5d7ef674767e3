"""Name servers and brokers as processes of a simulated cluster: started, stopped, crashed and started again.

A process is the real server on a host of its own. Stopping it does what SIGTERM does. Crashing it comes as near to
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
from testbed.simulation.kernel.network import Fault
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
    """One server process on its own host.

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
        self._killed: Fault | None = None  # no data comes from it or reaches it
        self._at_the_crash: Path | None = None  # its files, as they were when it was killed
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._ended.set()

    @property
    def process(self) -> Running | None:
        """The value of the server's context manager while it runs, else None."""
        return self._process

    @property
    def process_host(self) -> str:
        """The host of `process`."""
        return self.host

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
    def is_down(self) -> bool:
        """Whether no process of it runs, starts or ends."""
        return self._ended.is_set() and self._killed is None

    @property
    def can_be_killed(self) -> bool:
        """Whether a process of it runs, starts or stops, and was not killed."""
        return not self._ended.is_set() and self._killed is None

    @property
    def serves(self) -> bool:
        """Whether it runs and is not about to stop: while it stops it answers no request, and its deadlines pass."""
        return self.process is not None and not self._scope.cancel_called and self._killed is None

    async def start(self, host: str | None = None) -> None:
        """Start it, on another host than before if one is given; returns once it listens, or was killed before.

        Raises:
            RlabError: the server refuses to start.

        Cancellation: it is stopped again.
        """
        assert self._ended.is_set(), f"{self.name} runs already"
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        if host is not None:
            self.host = host
        with self._simulation.on_host(self.host):
            self._process = await self._tasks.start(self._run)

    async def _run(self, task_status: TaskStatus[Running | None]) -> None:
        has_started = False
        try:
            with self._scope:
                async with self._open_server(self._emit) as running:
                    task_status.started(running)
                    has_started = True
                    await anyio.sleep_forever()
            if not has_started and self._killed is not None:
                task_status.started(None)
        finally:
            self._process = None
            self._ended.set()

    def _emit(self, event: Event) -> None:
        if self._killed is None:
            self._sink(event)

    async def stop(self) -> None:
        """End it as SIGTERM does: it unregisters and closes its files. Idempotent.

        Cancellation: it ends all the same.
        """
        self._scope.cancel()
        await self._ended.wait()

    def kill(self, lose: Callable[[Path, Path], None] | None = None) -> None:
        """Drop everything that it sends from now on, and keep its files as they are now; `crash` has to be called next.

        A fault may call this inside a call of the process to the file system: the process goes on until `crash` ends
        it, without any effect. For `lose` see `crash`.
        """
        assert self._killed is None, f"{self.name} was killed already"
        self._at_the_crash = self._copy_data()
        if lose is not None and self._data_dir is not None and self._at_the_crash is not None:
            lose(self._data_dir, self._at_the_crash)
        self._killed = self._simulation.network.kill(self.host)
        self._simulation.network.standstill.go_on(self.host)  # so that it can end, without an effect

    async def crash(self, lose: Callable[[Path, Path], None] | None = None) -> None:
        """End it as SIGKILL does; see the module header. It may be starting.

        Args:
            lose: called with the data directory and a copy of it as it is now; removes from the copy the files that are
                lost with the process. The next start finds that copy.

        Cancellation: it ends, and its data directory may be that of a clean stop.
        """
        assert not self.is_down, f"{self.name} does not run"
        if self._killed is None:
            self.kill(lose)
        assert self._killed is not None, "it was killed"
        try:
            self._simulation.network.cut(self.host)
            await self.stop()
            if self._data_dir is not None and self._at_the_crash is not None:
                shutil.rmtree(self._data_dir)
                self._at_the_crash.rename(self._data_dir)
        finally:
            self._killed.heal()
            self._killed = self._at_the_crash = None

    def _copy_data(self) -> Path | None:
        """Copy everything that the server has written, synced or not."""
        if self._data_dir is None:
            return None
        copy = self._data_dir.with_name(f"{self._data_dir.name}.crashed")
        shutil.copytree(self._data_dir, copy)
        return copy
