"""A whole cluster in virtual time: name servers, brokers, producers and consumers, each on its own host.

Servers and clients are the real ones. This module starts them, keeps all events, and can compare at any moment who
should own which queue and who does. Faults are done to single parts: `cluster.brokers["broker-a"].crash()`,
`cluster.consumers[0].hang()`, and the faults of `cluster.simulation.network`.

Invariant: equal seeds, options and calls give equal `events`, byte for byte.

Example::

    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, data_dir) as cluster:
            await cluster.create_topic("orders", queues=4)
            first = await cluster.start_consumer("billing", "orders")
            second = await cluster.start_consumer("billing", "orders")
            took_s = await cluster.wait_converged(5.0)

    run_simulation(main, seed=7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

import anyio

from broker.broker import RunningBroker
from broker.config import Mastership
from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueStrategy
from client.listeners.listener import Listener
from client.options import ConsumeMode
from client.pop.consumer import PopConsumer
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from client.transactions.checks import Check
from client.transactions.producer import TransactionProducer
from model.errors import TopicNotExist
from model.event_log import EventSink
from model.events import Event, EventKind
from model.subscription import ALL, Expression
from model.topic_route import READ_WRITE, Perm
from namesrv.route_table import RouteTable
from namesrv.server import NameServer
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.tasks import background_tasks
from replica.registers.memory import MemoryRegister
from testbed.simulation.cluster.clients import (
    MemberProcess,
    SimulatedConsumer,
    SimulatedPopConsumer,
    SimulatedProducer,
    SimulatedTransactionProducer,
    Work,
)
from testbed.simulation.cluster.convergence import Owners, compute_expected_owners, differences, owners_of
from testbed.simulation.cluster.opening import BROKER_PORT, NAME_SERVER_PORT, Opening
from testbed.simulation.cluster.servers import SimulatedServer
from testbed.simulation.cluster.sets import SimulatedReplica, SimulatedSet
from testbed.simulation.kernel.run import Simulation

__all__ = ["BROKER_PORT", "NAME_SERVER_PORT", "NotConverged", "SimulatedCluster"]

SHOWN_TIMEOUT_S = 60.0
"""Until every running name server has to show a new topic."""
SAMPLE_INTERVAL_S = 0.005
"""How often `wait_converged` compares, which is the precision of its result."""


class NotConverged(AssertionError):
    """The group did not reach its target in time; the text has every difference."""


class SimulatedCluster:
    """See the module header. An async context manager: it stops everything at the end, clients first.

    Args:
        data_dir: brokers store below it.
        name_servers: how many; named `namesrv-1` and so on.
        brokers: how many; named `broker-a` and so on.
        copies: how many replicas each broker has, on the hosts `broker-a-1` and so on; 1 for a broker without copies.
        set_options: `ReplicaConfig` by name, for every replica.
        **broker_options: `BrokerConfig` by name, for every broker; `access` and `key` for name servers, too.

    Attributes:
        consumers, poppers, producers: every client that was made, except those that failed to start, in that order.
    """

    def __init__(
        self,
        simulation: Simulation,
        data_dir: Path,
        *,
        name_servers: int = 1,
        brokers: int = 2,
        copies: int = 1,
        set_options: Mapping[str, Any] | None = None,
        **broker_options: Any,
    ) -> None:
        self.simulation = simulation
        self.name_servers: dict[str, SimulatedServer[NameServer]] = {}
        self.brokers: dict[str, SimulatedServer[RunningBroker]] = {}
        self.replicas: dict[str, SimulatedReplica] = {}  # host -> the replica of a set
        self.consumers: list[SimulatedConsumer] = []
        self.poppers: list[MemberProcess] = []
        self.events: list[Event] = []  # every event of every node, in the order in which they happened
        self.watchers: list[EventSink] = []  # called with each event as it happens; must not raise
        self.client_options: dict[str, Any] = {}  # `ClientConfig` by name, for every client that is started from now on
        self.skewed_ms: dict[str, int] = {}  # host -> how far its wall clock is ahead
        self.masterships: dict[str, Mastership] = {}  # broker name -> the mastership under which its next start serves
        self.clocks: dict[str, Callable[[], int]] = {}  # host -> the same, of a clock that is wrong all the time
        self._names = (
            [f"namesrv-{n + 1}" for n in range(name_servers)],
            [f"broker-{chr(97 + n)}" for n in range(brokers)],
        )
        self.data_dir, self.keeps_events = data_dir, True  # long runs watch events, and keep none
        self._copies, self._set_options = copies, {"copies": copies, **(set_options or {})}
        self._broker_options, self.producers = broker_options, list[SimulatedProducer]()
        self._strategies: dict[str, AllocateMessageQueueStrategy] = {}
        self._clients, self._stack = 0, AsyncExitStack()
        self._opening: Opening
        self._admin = RemotingClient(rng=Random(f"admin {simulation.seed}"), key=broker_options.get("key"))

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> SimulatedCluster:
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(background_tasks())
            self._opening = Opening(
                *(self.simulation, tasks, self.data_dir, self._broker_options, self.clock_of, self.record_event),
                self.masterships,
            )
            stack.push_async_callback(self._stop_all)
            for name in self._names[0]:
                self.name_servers[name] = self._opening.name_server(name)
                await self.name_servers[name].start()
            for name in self._names[1]:
                await self.add_broker(name)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _stop_all(self) -> None:
        self.simulation.network.heal()
        with anyio.CancelScope(shield=True):
            await self._stop_clients()
            for broker in self.brokers.values():
                await broker.stop()
            for name_server in self.name_servers.values():
                await name_server.stop()

    async def _stop_clients(self) -> None:
        async with anyio.create_task_group() as stopping:
            for consumer in (*self.consumers, *self.poppers):
                stopping.start_soon(consumer.stop if consumer.live else consumer.end)
            for producer in self.producers:
                stopping.start_soon(producer.stop)
        await self._admin.aclose()

    async def add_broker(self, name: str) -> None:
        """Start one more broker, or its replicas. Raises and cancellation: see `SimulatedServer.start`."""
        if self._copies == 1:
            server = self.brokers[name] = self._opening.broker(name)
            await server.start()
            return
        self.brokers[name] = simulated_set = SimulatedSet(name)
        for _ in range(self._copies):
            await self.add_replica(simulated_set)

    async def add_replica(self, replica_set: SimulatedSet) -> SimulatedReplica:
        """Start one more replica of a set. Raises and cancellation: see `SimulatedServer.start`."""
        replica = self._opening.replica(replica_set.name, len(replica_set.replicas) + 1, **self._set_options)
        replica_set.replicas.append(replica)
        self.replicas[replica.name] = replica
        await replica.start()
        return replica

    def clock_of(self, host: str) -> Callable[[], int]:
        """The wall clock of a host: the simulation's, plus the differences of the host in `skewed_ms` and `clocks`."""
        return lambda: self.simulation.clock_ms() + self.skewed_ms.get(host, 0) + self.clocks.get(host, int)()

    # --- clients -----------------------------------------------------------------------------------------------------

    @property
    def register(self) -> MemoryRegister:
        """The rows of all replica sets, without the faults of connections to the register."""
        return self._opening.register

    @property
    def addresses(self) -> list[str]:
        """Addresses of the name servers, for clients."""
        return [server.address for server in self.name_servers.values()]

    def _options(self, kind: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The host of a new client, and its options."""
        self._clients += 1
        host = options.pop("host", f"{kind}{self._clients}")
        default_options = {
            "clock_ms": self.clock_of(host),
            "event_sink": self.record_event,
            "rng": Random(f"{host} {self._clients} {self.simulation.seed}"),
            "trace": False,
            # The default holds the process id, and clients of all hosts share the registry of one real process.
            "instance_name": str(self._clients),
        }
        return host, {**default_options, **self.client_options, **options}

    def make_consumer(
        self, group: str, *, strategy: AllocateMessageQueueStrategy | None = None, **options: Any
    ) -> SimulatedConsumer:
        """Make a consumer without starting it; options are `host`, and `ClientConfig` and `ConsumerOptions` by name.

        The strategy is AVG by default; all members of a group have the same.
        """
        host, client_options = self._options("c", options)
        if client_options.get("mode") != ConsumeMode.POP:  # a member that pops owns no queues
            self._strategies[group] = strategy or AllocateMessageQueueAveragely()
        consumer = PushConsumer(self.addresses, group, strategy=strategy, **client_options)
        simulated = SimulatedConsumer(self.simulation, host, consumer)
        self.consumers.append(simulated)
        return simulated

    async def start_consumer(
        self,
        group: str,
        topic: str,
        *,
        expression: Expression = ALL,
        work: Work | None = None,
        listener: Listener | None = None,
        strategy: AllocateMessageQueueStrategy | None = None,
        **options: Any,
    ) -> SimulatedConsumer:
        """Start a consumer on a new host; it records its deliveries and does `work` on each message.

        A `listener` replaces the one that records. For the strategy and the options see `make_consumer`.

        Raises and cancellation: see `PushConsumer.start`.
        """
        consumer = self.make_consumer(group, strategy=strategy, **options)
        return await self.subscribe_and_start(consumer, {topic: listener or consumer.listener(work)}, expression)

    async def subscribe_and_start(
        self, simulated: SimulatedConsumer, listeners: Mapping[str, Listener], expression: Expression = ALL
    ) -> SimulatedConsumer:
        """Subscribe a consumer to topics, each with its listener, and start it; if that fails it is forgotten.

        Raises and cancellation: see `PushConsumer.start`.
        """
        try:
            with self.simulation.on_host(simulated.host):  # in whose context its listeners run
                for topic, listener in listeners.items():
                    await simulated.consumer.subscribe(topic, listener, expression)
            await simulated.start()
        except BaseException:  # a cancellation too: a consumer that did not start is not stopped with the cluster
            self.consumers.remove(simulated)
            raise
        return simulated

    async def start_popper(
        self, group: str, topic: str, *, expression: Expression = ALL, **options: Any
    ) -> SimulatedPopConsumer:
        """Start a pop consumer on a new host; options are `host` and the options of `PopConsumer`."""
        host, client_options = self._options("pop", options)
        popper = SimulatedPopConsumer(self.simulation, host, PopConsumer(self.addresses, group, **client_options))
        await popper.consumer.subscribe(topic, expression)
        await popper.start()
        self.poppers.append(popper)
        return popper

    async def start_producer(self, **options: Any) -> SimulatedProducer:
        """Start a producer on a new host; options: `host`, `Producer` and `ClientConfig` by name."""
        host, client_options = self._options("p", options)
        simulated = SimulatedProducer(self.simulation, host, Producer(self.addresses, **client_options))
        await simulated.start()
        self.producers.append(simulated)
        return simulated

    async def start_transaction_producer(
        self, group: str, check: Check, **options: Any
    ) -> SimulatedTransactionProducer:
        """Start a producer of transactions on a new host; options as for `start_producer`."""
        host, client_options = self._options("t", options)
        with self.simulation.on_host(host):  # in whose context its checks run
            producer = TransactionProducer(self.addresses, group, check=check, **client_options)
        simulated = SimulatedTransactionProducer(self.simulation, host, producer)
        await simulated.start()
        self.producers.append(simulated)
        return simulated

    # --- topics ------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        queues: int = 4,
        *,
        write: int | None = None,
        perm: Perm = READ_WRITE,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Create or change a topic; returns once every running name server shows it.

        It gets `queues` on each of `brokers`, by default on all that run; `write` limits the writable ones.
        """
        names = [name for name, server in self.brokers.items() if server.process] if brokers is None else list(brokers)
        header = {"topic": topic, "read_queue_nums": queues, "perm": int(perm)}
        header["write_queue_nums"] = queues if write is None else write
        with self.simulation.on_host("admin"):
            for name in names:
                await self._admin.request(self.brokers[name].address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        tables = [server.running.table for server in self.name_servers.values() if server.process]
        expected = {(name, queues, header["write_queue_nums"], perm) for name in names}
        with anyio.fail_after(SHOWN_TIMEOUT_S):
            for table in tables:
                # Servers offer no event to wait for, and virtual time costs nothing.
                while not expected <= _shown(table, topic):  # noqa: ASYNC110
                    await anyio.sleep(SAMPLE_INTERVAL_S)

    # --- owners ------------------------------------------------------------------------------------------------------

    def _running_brokers(self) -> list[RunningBroker]:
        return [server.process for server in self.brokers.values() if server.process is not None]

    def target(self, group: str, *, retry_topics: bool = False) -> Owners:
        """The owner that each queue of a group should have now; see `testbed/simulation/cluster/convergence.py`."""
        strategy = self._strategies[group]
        return compute_expected_owners(
            group, strategy, self.consumers, self._running_brokers(), retry_topics=retry_topics
        )

    def owners(self, group: str, *, retry_topics: bool = False) -> Owners:
        """The owners of each queue of a group now, as its live members see it."""
        return owners_of(group, self.consumers, retry_topics=retry_topics)

    def differences(self, *, retry_topics: bool = False) -> list[str]:
        """A line for each queue of any group that is not as it should be; empty when all have converged."""
        return [
            difference
            for group in self._strategies
            for difference in differences(
                group,
                self.target(group, retry_topics=retry_topics),
                self.owners(group, retry_topics=retry_topics),
                self._running_brokers(),
            )
        ]

    async def wait_converged(self, timeout_s: float, *, retry_topics: bool = False) -> float:
        """Wait until every group has converged; returns how long it took. All times are virtual.

        `retry_topics` says whether the queues of retry topics count; clients find them with a route poll.

        Raises:
            NotConverged: not in time; the text has every difference.

        Cancellation: harmless.
        """
        started = self.simulation.loop.time()
        while left := self.differences(retry_topics=retry_topics):
            if self.simulation.loop.time() - started >= timeout_s:
                raise NotConverged(
                    f"not converged after {timeout_s} s, seed {self.simulation.seed}:\n" + "\n".join(left)
                )
            await anyio.sleep(SAMPLE_INTERVAL_S)
        return self.simulation.loop.time() - started

    # --- events ------------------------------------------------------------------------------------------------------

    def record_event(self, event: Event) -> None:
        """Record an event of a node, or of the code that changes the cluster."""
        if self.keeps_events:
            self.events.append(event)
        for watcher in self.watchers:
            watcher(event)

    def events_of(self, kind: EventKind, since: int = 0, **columns: object) -> list[Event]:
        """The events of a kind with these column values, e.g. `client="c1@1"`, without the first `since` events."""
        return [
            event
            for event in self.events[since:]
            if event.kind == kind and all(getattr(event, name) == value for name, value in columns.items())
        ]


def _shown(table: RouteTable, topic: str) -> set[tuple[str, int, int, Perm]]:
    try:
        queues = table.route(topic).queues
    except TopicNotExist:
        return set()
    return {(data.broker_name, data.read_queue_nums, data.write_queue_nums, data.perm) for data in queues}
