"""A simulated cluster with the faults and barriers of `pytest_rlab`: a minute takes no time, and a seed repeats a run.

    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.create_topic("orders")
        await cluster.simulated.start_consumer("billing", "orders", listener=book)
        async with cluster.killed("broker-a"):
            ...
        await cluster.balanced("billing", timeout_s=60)

    run_virtual(scenario, folder, seed=7)

It is the control plane of `rlab cluster`, with the servers of a simulation in place of processes. All calls have the
names and the form of `remote.py`.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from broker.broker import RunningBroker
from broker.groups.faults import BrokerFaults
from client.admin.admin import Admin
from namesrv.faults import NameServerFaults
from namesrv.server import NameServer
from process.orders import Orders
from testbed.cluster.cluster_bed import ClusterBed
from testbed.cluster.control.plane import Plane
from testbed.cluster.control.verbs import Barriers, FaultToBegin, FaultVerbs, took_s
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.servers import SimulatedServer
from testbed.simulation.kernel.network import Fault as NetworkFault
from testbed.simulation.kernel.run import Simulation, run_simulation

T = TypeVar("T")


class VirtualCluster(FaultVerbs[FaultToBegin], Barriers[Awaitable[float]]):
    """See the module header.

    Attributes:
        simulated: the cluster itself; it starts consumers and producers, and injects faults of networks and clocks.
        name_server: its `host:port`, for clients.
    """

    def __init__(self, simulated: SimulatedCluster, admin: Admin) -> None:
        self.simulated = simulated
        self.name_server = simulated.addresses[0]
        self._bed = _SimulatedBed(simulated)
        self._plane = Plane(self._bed, admin, self.name_server)

    # --- faults of connections ---------------------------------------------------------------------------------------

    def fault(self, do: str, **columns: Any) -> FaultToBegin:
        """See `FaultVerbs`; the fault begins when it is awaited, or entered by `async with`."""
        return FaultToBegin(self, {"do": do, **columns})

    async def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """See `FaultRequests`. Raises: InvalidParameter. Cancellation: cannot happen, servers here answer at once."""
        return await self._plane.begin_fault(document)

    async def end(self, fault: int) -> None:
        """See `FaultRequests`. Cancellation: see `begin`."""
        await self._plane.heal(fault)

    async def faults(self) -> list[dict[str, Any]]:
        """The active faults. Cancellation: see `begin`."""
        return list((await self._plane.faults())["active"])

    # --- processes ---------------------------------------------------------------------------------------------------

    async def act(self, name: str, verb: str) -> None:
        """Act on a broker or name server: kill, pause, resume, start, stop, restart.

        Raises:
            InvalidParameter: there is no such server or verb, or the server does not accept the verb now.

        Cancellation: the action may have happened.
        """
        await self._plane.act(name, verb)

    async def kill(self, name: str) -> None:
        """Kill a server. Raises and cancellation: see `act`."""
        await self.act(name, "kill")

    async def start(self, name: str) -> None:
        """Start a server that was killed or stopped. Raises and cancellation: see `act`."""
        await self.act(name, "start")

    async def restart(self, name: str) -> None:
        """Stop a server, and start it again on its data. Raises and cancellation: see `act`."""
        await self.act(name, "restart")

    @asynccontextmanager
    async def killed(self, name: str) -> AsyncIterator[None]:
        """Kill a server, and start it again at the end of the block."""
        await self.act(name, "kill")
        try:
            yield
        finally:
            await self.act(name, "start")

    @asynccontextmanager
    async def paused(self, name: str) -> AsyncIterator[None]:
        """Pause a server, as if it hung, and resume it at the end of the block."""
        await self.act(name, "pause")
        try:
            yield
        finally:
            await self.act(name, "resume")

    async def heal(self) -> None:
        """End all faults, and start and resume every server. Cancellation: some may be left."""
        await self._plane.heal()

    # --- topics and groups -------------------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic with this number of queues on each broker, or scale the topic to it.

        Raises:
            RlabError: a broker does not answer, or refuses the request.

        Cancellation: some brokers may have the topic.
        """
        await self._plane.create_topic({"topic": topic, "queues": queues})

    async def create_group(self, group: str, topic: str, **settings: Any) -> None:
        """Create a group that begins with the first message of a topic; see `RemoteCluster.create_group`.

        Raises:
            RlabError: a broker does not answer, or refuses the request.

        Cancellation: some brokers may have the group.
        """
        await self._plane.create_group({"group": group, "topic": topic, **settings})

    async def group(self, group: str) -> dict[str, Any]:
        """A group: its members, version, lag, and for each queue its owner, target and lag.

        Raises:
            RlabError: no broker answers.

        Cancellation: harmless.
        """
        return await self._plane.group(group)

    async def report(self, group: str = "") -> dict[str, Any]:
        """The last rebalances, the findings of the trace checker, and the active faults.

        Raises:
            RlabError: no broker answers.

        Cancellation: harmless.
        """
        return await self._plane.report(group or None)

    async def _wait(self, group: str, barrier: str, timeout_s: float, parameters: dict[str, Any]) -> float:
        texts = {name: str(value) for name, value in {"timeout_s": timeout_s, **parameters}.items()}
        if barrier == "passes":
            texts["since_ms"] = str(self.simulated.simulation.clock_ms())
        return took_s(await self._plane.wait(group, barrier, texts), group, barrier, timeout_s)


def run_virtual(
    scenario: Callable[[VirtualCluster], Awaitable[T]], folder: Path, *, seed: int = 0, **options: Any
) -> T:
    """Run a scenario on its own cluster in virtual time; the options are the ones of `SimulatedCluster`.

    Raises:
        Exception: every error of the scenario, with a note that shows how to run it again.
    """

    async def main(simulation: Simulation) -> T:
        async with SimulatedCluster(simulation, folder, **{"trace": True, **options}) as simulated:
            simulated.client_options["trace"] = True  # only the clients themselves record their passes
            with simulation.on_host("control"):
                async with Admin(simulated.addresses, rng=Random(f"control {seed}")) as admin:
                    return await scenario(VirtualCluster(simulated, admin))

    return run_simulation(main, seed=seed)


class _SimulatedBed(ClusterBed):
    """The servers of a simulated cluster in the place of processes."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._make = partial(_SimulatedChild, simulated.simulation)
        name_servers: list[Any] = [self._make(each, orders_of_name_server) for each in simulated.name_servers.values()]
        brokers: list[Any] = [self._make(each, orders_of_broker) for each in simulated.brokers.values()]
        super().__init__(name_servers, brokers, {})

    async def _start_again(self, child: Any) -> None:
        started: Any = self._make(child.server, child.make_orders)
        for siblings in (self._name_servers, self._brokers):
            if child in siblings:
                siblings[siblings.index(child)] = started
        await started.server.start()
        self._states.pop(child.name, None)


class _SimulatedChild:
    """A simulated server with the interface that `ClusterBed` uses: a `Child` that is its own `Process`."""

    def __init__(
        self, simulation: Simulation, server: SimulatedServer[Any], make_orders: Callable[[Any, Random], Orders]
    ) -> None:
        self.name, self.address = server.name, server.address
        self.server, self.make_orders = server, make_orders
        self.process = self
        self._simulation = simulation
        self._orders: Orders | None = None
        self._pause: NetworkFault | None = None
        self._is_killed = False

    async def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """See `Child`. Raises: InvalidParameter. Cancellation: cannot happen, it does not wait."""
        if self._orders is None:
            self._orders = self.make_orders(self.server.running, Random(f"faults {self._simulation.seed} {self.name}"))
        return self._orders.answer(order)

    async def stop(self) -> None:
        """See `Child`. Cancellation: the server ends nevertheless."""
        await self.server.stop()

    def send_signal(self, number: int) -> None:
        """Pause or resume the server. While it is paused, no packet reaches it and none leaves it."""
        if number == signal.SIGSTOP:
            self._pause = self._simulation.network.stall(self.name)
        elif self._pause is not None:
            self._pause.heal()
            self._pause = None

    def kill(self) -> None:
        """See `Process`; the server has ended when `wait` returns."""
        self._is_killed = True

    async def wait(self) -> int:
        """See `Process`. Cancellation: see `SimulatedServer.crash`."""
        if self._is_killed:
            self.send_signal(signal.SIGCONT)
            await self.server.crash()
        return 0


def orders_of_broker(running: RunningBroker, rng: Random) -> Orders:
    """The orders of a simulated broker."""
    broker = running.broker
    store_trace = broker.store_trace if broker.config.trace else lambda: None
    return Orders(BrokerFaults(running.server, broker.groups, broker.events, store_trace), rng)


def orders_of_name_server(server: NameServer, rng: Random) -> Orders:
    """The orders of a simulated name server."""
    return Orders(NameServerFaults(server.server), rng)
