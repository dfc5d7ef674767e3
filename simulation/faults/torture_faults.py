"""Random faults on a cluster: crashes, stops, hangs, cut connections, partitions and full disks.

Consumers have slots, which are their hosts: a consumer that left or crashed is started again in its slot later, so a
repaired cluster is the same every time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio

from model.errors import RlabError
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.servers import SimulatedServer
from simulation.faults.full_disk import FillingDisks
from simulation.kernel.network import Fault

PAUSES_S = (0.0, 0.01, 0.2, 1.0, 3.0, 8.0)
"""Limits of the pause between two faults, some of which come in bunches."""


class FaultyClient(Protocol):
    """A client that faults are done to; `live` while it runs and can be reached."""

    live: bool

    async def stop(self) -> None:
        """Shut it down as its owner would."""
        ...

    async def crash(self) -> None:
        """Kill its process."""
        ...

    def hang(self) -> Fault:
        """Cut its host off without a reset."""
        ...


class Faults:
    """The faults of one run; `start` starts the consumer of a slot."""

    def __init__(
        self, cluster: SimulatedCluster, disks: FillingDisks, start: Callable[[str], Awaitable[FaultyClient]]
    ) -> None:
        self.done: Counter[str] = Counter()  # kind of fault -> how often it was done
        self.spared: list[str] = []  # servers that are neither stopped nor crashed; other faults may hit them
        self._cluster = cluster
        self._network = cluster.simulation.network
        self._random = cluster.simulation.random
        self._disks = disks
        self._start = start
        self._slots: dict[str, FaultyClient | None] = {}
        self._hung: dict[str, Fault] = {}
        self._faults: list[Fault] = []

    async def fill(self, slot: str) -> None:
        """Start the consumer of a slot. Raises and cancellation: see `PushConsumer.start`."""
        self._slots[slot] = None
        self._slots[slot] = await self._start(slot)

    async def chaos(self, duration_s: float) -> None:
        """Do random faults for `duration_s`. Cancellation: those that are active stay."""
        steps: list[tuple[Callable[[], Awaitable[bool]], int]] = [
            (self._join, 8),
            (self._leave, 2),
            (self._crash, 3),
            (self._hang, 1),
            (self._wake, 2),
            (self._cut, 4),
            (self._partition, 2),
            (self._heal, 4),
            (self._stop_server, 1),
            (self._crash_server, 2),
            (self._start_server, 6),
            (self._fill_disk, 1),
            (self._make_room, 3),
        ]
        functions, weights = [step for step, _ in steps], [weight for _, weight in steps]
        ends_at = anyio.current_time() + duration_s
        while anyio.current_time() < ends_at:
            step = self._random.choices(functions, weights)[0]
            if await step():
                self.done[step.__name__.strip("_")] += 1
            await anyio.sleep(self._random.choice(PAUSES_S) * self._random.random())

    async def make_whole(self) -> None:
        """Heal all faults, and start every stopped server and consumer. Cancellation: some may be left."""
        self._disks.full.clear()
        for fault in (*self._faults, *self._hung.values()):
            fault.heal()
        self._faults.clear()
        for slot in list(self._hung):
            self._woken(slot)
        while await self._start_server():
            pass
        for slot in self._empty:
            await self.fill(slot)

    # --- consumers ---------------------------------------------------------------------------------------------------

    @property
    def _empty(self) -> list[str]:
        return [slot for slot, consumer in self._slots.items() if consumer is None]

    def _one_that_lives(self) -> str:
        living = [slot for slot, consumer in self._slots.items() if consumer is not None and slot not in self._hung]
        return self._random.choice(living or [""])

    def _take_out(self, slot: str) -> FaultyClient:
        consumer = self._slots[slot]
        assert consumer is not None, f"nobody is in {slot}"
        self._slots[slot] = None
        self._cluster.consumers[:] = [each for each in self._cluster.consumers if each is not consumer]
        self._cluster.poppers[:] = [each for each in self._cluster.poppers if each is not consumer]
        return consumer

    async def _join(self) -> bool:
        empty = self._empty
        try:
            if empty:
                await self.fill(self._random.choice(empty))
        except RlabError:
            return False  # no name server can be reached
        return bool(empty)

    async def _leave(self) -> bool:
        slot = self._one_that_lives()
        if slot:
            await self._take_out(slot).stop()
        return bool(slot)

    async def _crash(self) -> bool:
        slot = self._one_that_lives()
        if slot:
            await self._take_out(slot).crash()
        return bool(slot)

    async def _hang(self) -> bool:
        slot = self._one_that_lives()
        consumer = self._slots.get(slot)
        if consumer is None or len(self._hung) > 2:
            return False
        self._hung[slot] = consumer.hang()
        return True

    async def _wake(self) -> bool:
        slot = self._random.choice(list(self._hung) or [""])
        if slot:
            self._hung[slot].heal()
            self._woken(slot)
        return bool(slot)

    def _woken(self, slot: str) -> None:
        del self._hung[slot]
        consumer = self._slots[slot]
        assert consumer is not None, f"nobody is in {slot}"
        consumer.live = True

    # --- the network -------------------------------------------------------------------------------------------------

    @property
    def _servers(self) -> dict[str, SimulatedServer[Any]]:
        return {**self._cluster.name_servers, **self._cluster.brokers}

    async def _cut(self) -> bool:
        return self._network.cut(self._random.choice([*self._servers, *self._slots])) > 0

    async def _partition(self) -> bool:
        a, b = self._random.sample([*self._servers, *self._slots], 2)
        self._faults.append(self._network.partition(a, b, one_way=self._random.random() < 0.3))
        return True

    async def _heal(self) -> bool:
        if self._faults:
            self._faults.pop(self._random.randrange(len(self._faults))).heal()
            return True
        return False

    # --- servers -----------------------------------------------------------------------------------------------------

    def _running(self) -> SimulatedServer[Any] | None:
        running = [server for name, server in self._servers.items() if server.process and name not in self.spared]
        return self._random.choice(running) if running else None

    async def _stop_server(self) -> bool:
        server = self._running()
        if server is not None:
            await server.stop()
        return server is not None

    async def _crash_server(self) -> bool:
        server = self._running()
        if server is not None:
            await server.crash()
        return server is not None

    async def _start_server(self) -> bool:
        for server in self._servers.values():
            if not server.process:
                try:
                    await server.start()
                except RlabError:
                    return False  # its disk is full
                return True
        return False

    async def _fill_disk(self) -> bool:
        self._disks.full[self._random.choice(list(self._cluster.brokers))] = None
        return True

    async def _make_room(self) -> bool:
        if self._disks.full:
            self._disks.full.popitem()
            return True
        return False
