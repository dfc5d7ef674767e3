"""Makes the servers of a simulated cluster: name servers, brokers and replicas, none of them started yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

from anyio.abc import TaskGroup

from broker.broker import RunningBroker, run_broker
from broker.config import BrokerConfig, Mastership
from model.event_log import EventSink
from namesrv.config import NameServerConfig
from namesrv.server import NameServer, run_name_server
from replica.config import ReplicaConfig
from replica.host import RunningReplica, run_replica
from replica.registers.memory import MemoryRegister, RegisterFaults
from testbed.simulation.cluster.servers import SimulatedServer, UnsyncedFiles
from testbed.simulation.cluster.sets import SimulatedReplica
from testbed.simulation.kernel.run import Simulation

NAME_SERVER_PORT, BROKER_PORT = 9876, 10911


class Opening:
    """Makes the servers of one cluster.

    Args:
        options: `BrokerConfig` by name, for every broker; `access` for name servers, too.
        clock_of: the wall clock of a host.
        note: gets every event.
        masterships: broker name -> the mastership under which the next start of a broker without copies serves.

    Attributes:
        addresses: of the name servers that were made, for the brokers that are made later.
        register: the rows of all replica sets.
    """

    def __init__(
        self,
        simulation: Simulation,
        tasks: TaskGroup,
        data_dir: Path,
        options: dict[str, Any],
        clock_of: Callable[[str], Callable[[], int]],
        note: EventSink,
        masterships: Mapping[str, Mastership],
    ) -> None:
        self.addresses: list[str] = []
        self.register = MemoryRegister(register_id=1 + simulation.seed % 1_000)
        self._simulation, self._tasks, self._data_dir = simulation, tasks, data_dir
        self._options, self._clock_of, self._note, self._masterships = options, clock_of, note, masterships

    def name_server(self, name: str) -> SimulatedServer[NameServer]:
        """Make a name server."""
        config = NameServerConfig(listen=f"0.0.0.0:{NAME_SERVER_PORT}", name=name, access=self._options.get("access"))
        server: SimulatedServer[NameServer] = SimulatedServer(
            *(self._simulation, self._tasks, name, NAME_SERVER_PORT, lambda _: run_name_server(config)),
            data_dir=None,
            sink=self._note,
        )
        self.addresses.append(server.address)
        return server

    def broker(self, name: str) -> SimulatedServer[RunningBroker]:
        """Make a broker without copies; its name is its host."""
        config_of = self._config_of(name, name)
        return SimulatedServer(
            *(self._simulation, self._tasks, name, BROKER_PORT, lambda sink: run_broker(config_of(sink))),
            data_dir=self._data_dir / name,
            sink=self._note,
        )

    def replica(self, name: str, number: int, *, rates_apart: float = 0.0, **options: Any) -> SimulatedReplica:
        """Make a replica of a broker; the first one makes the set, with options of `ReplicaConfig` by name.

        `rates_apart` is by which share the clocks of leases of two replicas may differ in rate.
        """
        host = f"{name}-{number}"
        loop = self._simulation.loop
        rate = 1 + rates_apart * (Random(f"rate of {host} {self._simulation.seed}").random() - 0.5)
        config_of, faults = self._config_of(name, host), RegisterFaults()
        register = self.register.seen_with(faults)

        def open_replica(sink: EventSink) -> AbstractAsyncContextManager[RunningReplica]:
            replica_options = {"lease_clock": lambda: rate * loop.time(), **options}
            return run_replica(
                ReplicaConfig(broker=config_of(sink), register=register, makes=number == 1, **replica_options)
            )

        return SimulatedReplica(
            faults,
            *(self._simulation, self._tasks, host, BROKER_PORT, open_replica),
            data_dir=self._data_dir / host,
            sink=self._note,
        )

    def _config_of(self, name: str, host: str) -> Callable[[EventSink], BrokerConfig]:
        """The options of a broker on a host, for each of its starts."""
        data_dir = self._data_dir / host
        data_dir.mkdir(parents=True, exist_ok=True)
        options = {"trace": False, "files": UnsyncedFiles(), **self._options}
        # One generator for all lives of a broker: after a restart it must not draw the same tokens again.
        rng = Random(f"{host} {self._simulation.seed}")
        return lambda sink: BrokerConfig(
            name=name,
            data_dir=data_dir,
            name_servers=tuple(self.addresses),
            listen=f"0.0.0.0:{BROKER_PORT}",
            clock_ms=self._clock_of(host),
            rng=rng,
            event_sink=sink,
            replica=self._masterships.get(name),
            **options,
        )
