"""A cluster inside this process: one name server and some brokers, on free loopback ports.

The servers are the real ones on real sockets. A broker can be restarted: it ends as on SIGTERM, and a new one starts
on the same data directory and port. Brokers can inject faults into the connections of one client (`remoting/faults`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio
from anyio.abc import TaskGroup, TaskStatus

from broker.broker import run_broker
from broker.config import BrokerConfig
from broker.groups.faults import make_fault_hook
from client.admin.admin import Admin
from model.event_log import EventSink
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from process.children import broker_name
from remoting.faults.fault import ConnectionFault
from remoting.faults.hook import FaultHook
from remoting.tasks import background_tasks
from testbed.cluster.registered import wait_registered

REGISTERED_TIMEOUT_S = 10.0


@dataclass(slots=True, eq=False)
class EmbeddedCluster:
    """A running cluster; made by `run_cluster`."""

    name_server: str
    admin: Admin
    _data_dir: Path
    _sink: EventSink
    _clock_ms: Callable[[], float]
    _tasks: TaskGroup
    brokers: dict[str, str] = field(default_factory=dict, init=False)  # name -> listen address
    _faults: dict[str, FaultHook] = field(default_factory=dict, init=False)
    _stops: dict[str, anyio.Event] = field(default_factory=dict, init=False)
    _stopped: dict[str, anyio.Event] = field(default_factory=dict, init=False)

    async def start_broker(self, name: str, listen: str = "127.0.0.1:0") -> None:
        """Start a broker on its data directory, and return once it listens.

        Raises:
            ConfigError: its data directory or address cannot be used.

        Cancellation: it is stopped again.
        """
        self.brokers[name] = await self._tasks.start(self._run_broker, name, listen)

    async def restart_broker(self, name: str) -> None:
        """Stop a broker, start a new one in its place, and return once the new one listens.

        Cancellation: the broker may be stopped.
        """
        self._stops[name].set()
        await self._stopped[name].wait()
        await self.start_broker(name, self.brokers[name])

    def begin(self, do: str, client: str) -> None:
        """Begin a fault at every broker, for the connections of a client; `client` is the end of its client id."""
        for hook in self._faults.values():
            hook.begin(ConnectionFault(do=do, client=client))

    def heal(self) -> None:
        """End all faults."""
        for hook in self._faults.values():
            hook.heal()

    async def wait_registered(self) -> None:
        """Wait until the name server lists every broker.

        Raises:
            ServiceNotAvailable: a broker is not listed within `REGISTERED_TIMEOUT_S`.
        """
        await wait_registered(self.admin, self.brokers.values(), REGISTERED_TIMEOUT_S)

    async def _run_broker(self, name: str, listen: str, *, task_status: TaskStatus[str]) -> None:
        config = BrokerConfig(
            name=name,
            data_dir=self._data_dir / name,
            name_servers=(self.name_server,),
            listen=listen,
            event_sink=self._sink,
            clock_ms=self._clock_ms,
        )
        stop = self._stops[name] = anyio.Event()
        stopped = self._stopped[name] = anyio.Event()
        try:
            async with run_broker(config) as running:
                self._faults[name] = make_fault_hook(
                    running.server, running.broker.groups, running.broker.events, Random()
                )
                task_status.started(running.address)
                await stop.wait()
        finally:
            stopped.set()


@asynccontextmanager
async def run_cluster(
    data_dir: Path, brokers: int, sink: EventSink, clock_ms: Callable[[], float]
) -> AsyncIterator[EmbeddedCluster]:
    """Run a cluster while the block runs.

    Brokers are named `broker-a` and so on. Each stores its data in a folder of its name in `data_dir`, and passes its
    events to `sink`. They are registered when the block begins.

    Raises:
        RlabError: a server could not be started.

    Cancellation: all servers are stopped.
    """
    async with (
        run_name_server(NameServerConfig(listen="127.0.0.1:0")) as name_server,
        Admin(name_server.address) as admin,
        background_tasks() as tasks,
    ):
        cluster = EmbeddedCluster(name_server.address, admin, data_dir, sink, clock_ms, tasks)
        for n in range(brokers):
            await cluster.start_broker(broker_name(n))
        await cluster.wait_registered()
        yield cluster
