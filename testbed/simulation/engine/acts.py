"""Carries out the steps of a programme on a cluster, and repairs the cluster at the end.

Steps for the same host run one after the other; steps for different hosts may overlap, for instance a slow shutdown and
a crash of another host. A step that is impossible is skipped, for instance the start of a process that runs already.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from broker.store.disk.directory import METADATA_NAME
from model.errors import RlabError
from model.events import Event, EventKind
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import MemberProcess
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.servers import SimulatedServer
from testbed.simulation.engine.load import SimulatedLoad
from testbed.simulation.engine.programme import Step
from testbed.simulation.engine.sets.acts import SetActs
from testbed.simulation.faults.damage import damage_file
from testbed.simulation.faults.full_disk import FillingDisks, FillingDisksWithPowerCuts
from testbed.simulation.faults.request_filters import RequestFilters
from testbed.simulation.kernel.network import Fault
from testbed.simulation.kernel.run import EPOCH_MS

T = TypeVar("T")


class Acts:
    """Carries out the steps of one run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        load: SimulatedLoad,
        disks: FillingDisks | FillingDisksWithPowerCuts,
        filters: RequestFilters,
        tasks: TaskGroup,
    ) -> None:
        self.done: Counter[str] = Counter()  # verb -> how often it was done
        self.left_out: Counter[str] = Counter()  # verb -> how often it could not be done
        self._cluster, self._load, self._disks, self._filters = cluster, load, disks, filters
        self._network, self._random = cluster.simulation.network, cluster.simulation.random
        self._tasks = tasks
        self._data_dir = cluster.data_dir
        self._busy: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._under_way = 0
        self._n_recorded = 0
        self._faults: list[Fault] = []
        self._twins: dict[str, MemberProcess] = {}
        self._healed = anyio.Event()
        self.of_sets = SetActs(cluster, self._later, self._wait_s, self._swapped)

    # --- from outside ------------------------------------------------------------------------------------------------

    def begin(self, step: Step) -> None:
        """Begin a step; it goes on in the background."""
        self._under_way += 1
        self._tasks.start_soon(self._do, step)

    async def make_whole(self) -> None:
        """End all faults, and start everything that should run. Raises: RlabError. Cancellation: some may be left."""
        self._healed.set()
        self._healed = anyio.Event()
        self._disks.full.clear()
        self._disks.forget_calls()
        self._cluster.skewed_ms.clear()
        self._load.slower_s.clear()
        self.of_sets.heal()
        for fault in self._faults:
            fault.heal()
        self._faults.clear()
        # Before the rest of the steps: the start of a member may be waiting for a broker that is down.
        await self._start_servers()
        while self._under_way:  # noqa: ASYNC110 - virtual time costs nothing
            await anyio.sleep(0.05)
        self._disks.forget_calls()  # those of steps that had to wait
        for twin in list(self._twins):
            await self._end_twin(twin)
        await self._start_servers()
        for slot, member in self._load.members.items():
            if member is None:
                await self._load.start_member(slot)
            else:
                member.live = True
                for topic in self._load.unsubscribed(slot):
                    await self._load.subscribe(slot, topic)
        for slot, producer in self._load.producers.items():
            if producer is None:
                await self._load.start_producer(slot)

    async def _start_servers(self) -> None:
        """Start those that are down and that no step is busy with."""
        for name, server in self._servers.items():
            if server.is_down and not self._busy[name].locked():
                await server.start()

    def _swapped(self, directory: Path) -> None:
        if isinstance(self._disks, FillingDisksWithPowerCuts):
            self._disks.forget(directory)

    # --- one step ----------------------------------------------------------------------------------------------------

    @property
    def _servers(self) -> dict[str, SimulatedServer[Any]]:
        brokers: Mapping[str, SimulatedServer[Any]] = self._cluster.replicas or self._cluster.brokers
        return {**self._cluster.name_servers, **brokers}

    def _broker_of(self, host: str) -> str:
        """The broker that a host is, or that it is the serving master of; "" for any other host."""
        cluster = self._cluster
        replica = cluster.replicas.get(host)
        if replica is None:
            return host if host in cluster.brokers else ""
        is_master = replica.process is not None and replica.process.running is not None
        return host.rpartition("-")[0] if is_master else ""

    async def _do(self, step: Step) -> None:
        act: Callable[[Step], Awaitable[bool]] = getattr(self, f"_{step.do}", None) or getattr(self.of_sets, step.do)
        try:
            async with self._busy[step.who]:
                is_done = await act(step)
        except (RlabError, TimeoutError):
            is_done = False  # for instance no name server can be reached
        finally:
            self._under_way -= 1
        (self.done if is_done else self.left_out)[step.do] += 1

    def _until(self, step: Step, fault: Fault) -> bool:
        """Keep a fault until the step is over or all is healed."""
        self._faults.append(fault)
        if step.for_s:
            self._later(step.for_s, fault.heal)
        return True

    def _keep_value(self, step: Step, table: dict[str, T], value: T) -> bool:
        """Keep a value for a host until the step is over; the repair clears its table."""
        table[step.who] = value
        if step.for_s:
            self._later(step.for_s, partial(table.pop, step.who, None))
        return True

    def _later(self, in_s: float, undo: Callable[[], object]) -> None:
        async def wait() -> None:
            if await self._wait_s(in_s):
                undo()

        self._tasks.start_soon(wait)

    def _record_fault(self, kind: EventKind, broker: str, detail: str, *, client: str = "", cause: str = "") -> str:
        """Record a fault that its node cannot record: a kill, or an intended silence; returns the event's id."""
        self._n_recorded += 1
        now_ms = EPOCH_MS + round(self._cluster.simulation.loop.time() * 1000)
        reported = Event(
            now_ms, "simulation", self._n_recorded, kind, cause, broker=broker, client=client, detail=detail
        )
        self._cluster.record_event(reported)
        return reported.id

    # --- processes ---------------------------------------------------------------------------------------------------

    async def _start(self, step: Step) -> bool:
        target, servers, load = step.who, self._servers, self._load
        if target in servers:
            if not servers[target].is_down:
                return False
            await servers[target].start()
        elif target in load.producers:
            if load.producers[target] is not None:
                return False
            await load.start_producer(target)
        else:
            if load.members[target] is not None:
                return False
            await load.start_member(target)
        return True

    async def _stop(self, step: Step, *, crash: bool = False) -> bool:
        target, servers, load = step.who, self._servers, self._load
        if target in servers:
            server = servers[target]
            if not server.serves:
                return False
            if crash and (broker := self._broker_of(target)):
                self._record_fault(EventKind.BROKER_DOWN, broker, "killed")
            await (server.crash() if crash else server.stop())
        elif target in load.producers:
            if load.producers[target] is None:
                return False
            await load.stop_producer(target, crash=crash)
        else:
            member = load.remove_member(target)
            if member is None:
                return False
            await (member.crash() if crash else member.stop())
        return True

    async def _crash(self, step: Step) -> bool:
        return await self._stop(step, crash=True)

    async def _crash_at_change(self, step: Step) -> bool:
        server = self._servers[step.who]

        async def end() -> None:
            try:
                await server.crash()
            finally:
                self._under_way -= 1

        def kill() -> None:
            if not server.can_be_killed:
                return
            if broker := self._broker_of(step.who):
                self._record_fault(EventKind.BROKER_DOWN, broker, "killed")
            server.kill()
            self._under_way += 1
            with self._cluster.simulation.on_host("simulation"):  # and not on its host
                self._tasks.start_soon(end)

        self._disks.before_change(step.who, step.n, kill)
        return True

    async def _restart(self, step: Step) -> bool:
        if not await self._stop(step):
            return False
        await self._wait_s(step.for_s)
        return await self._start(step)

    async def _flap(self, step: Step) -> bool:
        for _ in range(step.n):
            await self._stop(step, crash=True)
            rested = await self._wait_s(step.period_s / 2)
            await self._start(step)
            if not rested or not await self._wait_s(step.period_s / 2):
                break
        return True

    async def _wait_s(self, for_s: float) -> bool:
        """Wait; returns whether the time has passed, which a repair cuts short."""
        with anyio.move_on_after(for_s):
            await self._healed.wait()
            return False
        return True

    async def _pause(self, step: Step) -> bool:
        member = self._load.members.get(step.who)
        fault = self._network.stall(step.who)
        if member is None:
            if (register := self.of_sets.cut_off(step.who)) is not None:
                self._until(step, register)
            return self._until(step, fault)
        member.live = False

        def wake() -> None:
            member.live = self._load.members[step.who] is member
            fault.heal()

        self._faults.append(fault)
        if step.for_s:
            self._later(step.for_s, wake)
        return True

    async def _duplicate_id(self, step: Step) -> bool:
        if self._load.members[step.who] is None or step.who in self._twins:
            return False
        with suppress(RlabError):  # it is refused, as it should be
            self._twins[step.who] = await self._load.start_member(step.who, twin=True)
        if step.for_s:
            await self._wait_s(step.for_s)
            await self._end_twin(step.who)
        return True

    async def _end_twin(self, member: str) -> None:
        if (twin := self._twins.pop(member, None)) is not None:
            self._load.forget(twin)
            await twin.stop()

    # --- the network -------------------------------------------------------------------------------------------------

    async def _cut(self, step: Step) -> bool:
        return self._network.cut(step.who, step.to or None) > 0

    async def _partition(self, step: Step) -> bool:
        for client, host in ((step.who, step.to), (step.to, step.who)):
            if client in self._load.members and (broker := self._broker_of(host)):
                self._tasks.start_soon(self._declare, client, broker, step.for_s or math.inf)
        return self._until(step, self._network.partition(step.who, step.to, one_way=step.one_way))

    async def _declare(self, client: str, broker: str, for_s: float) -> None:
        """Record that a path is closed: other brokers know the member, so it is assigned queues that it cannot have."""
        path = {"broker": broker, "detail": f"partition client={client}", "client": client}
        began = self._record_fault(EventKind.FAULT_BEGAN, **path)
        await self._wait_s(for_s)
        self._record_fault(EventKind.FAULT_HEALED, **path, cause=began)

    async def _delay(self, step: Step) -> bool:
        return self._until(step, self._network.set_latency(step.who, step.to, step.by_s, one_way=step.one_way))

    async def _half_open(self, step: Step) -> bool:
        connections = self._network.connections(step.who, step.to or None)
        for connection in connections:
            self._until(step, self._network.half_open(connection, step.who))
        return bool(connections)

    async def _drop_code(self, step: Step) -> bool:
        code = RequestCode[step.code]
        return self._until(step, self._filters.add(code, target=step.who, one_in=step.one_in))

    async def _delay_code(self, step: Step) -> bool:
        return self._until(step, self._filters.add(RequestCode[step.code], target=step.who, by_s=step.by_s))

    async def _delay_heartbeats(self, step: Step) -> bool:
        return self._until(step, self._filters.add(RequestCode.HEART_BEAT, source=step.who, by_s=step.by_s))

    async def _stale_route(self, step: Step) -> bool:
        return self._until(step, self._filters.add(RequestCode.GET_ROUTEINFO_BY_TOPIC, source=step.who))

    # --- clocks, work and topics -------------------------------------------------------------------------------------

    async def _clock_skew(self, step: Step) -> bool:
        return self._keep_value(step, self._cluster.skewed_ms, round(step.by_s * 1000))

    async def _slow(self, step: Step) -> bool:
        return self._keep_value(step, self._load.slower_s, step.by_s)

    async def _unsubscribe(self, step: Step) -> bool:
        return await self._load.unsubscribe(step.who, step.topic)

    async def _subscribe(self, step: Step) -> bool:
        if step.topic not in self._load.unsubscribed(step.who):
            return False
        await self._load.subscribe(step.who, step.topic)
        return True

    async def _scale(self, step: Step) -> bool:
        await self._cluster.create_topic(step.topic, queues=step.n)
        return True

    # --- disks -------------------------------------------------------------------------------------------------------

    async def _full_disk(self, step: Step) -> bool:
        return self._keep_value(step, self._disks.full, None)

    async def _power_cut(self, step: Step) -> bool:
        server, disks = self._servers[step.who], self._disks
        if not server.serves:
            return False
        assert isinstance(disks, FillingDisksWithPowerCuts), "with power cuts, disks lose unsynced writes"
        if broker := self._broker_of(step.who):
            self._record_fault(EventKind.BROKER_DOWN, broker, "killed")
        await server.crash(lambda directory, survivor: disks.cut(directory, survivor, self._random))
        disks.forget(self._data_dir / step.who)
        await self._wait_s(step.for_s)
        await server.start()
        return True

    async def _bit_rot(self, step: Step) -> bool:
        server = self._servers[step.who]
        if not server.serves:
            return False
        await server.stop()
        files = [path for path in sorted((self._data_dir / step.who).glob("*.log")) if path.name != METADATA_NAME]
        damage_file(self._random.choice(files), self._random)
        await self._wait_s(step.for_s)
        await server.start()
        return True
