"""Carries out the steps of a programme on replica sets: handovers, elections, and faults of the path to the register.

Each is a method with the name of its verb, and returns whether it could be done.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import anyio

from broker.store.disk.files import Files
from replica.directory import OldReplica, read_identity
from replica.mastership.operate import elect, master_answers
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.sets import SimulatedReplica, SimulatedSet
from testbed.simulation.engine.programme import Step
from testbed.simulation.kernel.network import Fault

OLD_COPY_S = 2.0
"""How long a replica may run on an old copy of its directory, if its start is wrongly accepted."""


class SetActs:
    """The steps of one run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        call_later: Callable[[float, Callable[[], object]], None],
        wait: Callable[[float], Awaitable[bool]],
        on_replaced: Callable[[Path], None],
    ) -> None:
        """`call_later` calls a function after a time, and `wait` waits, unless everything is healed before.

        `on_replaced` is called with the path of a directory that was replaced by another one.
        """
        self._cluster, self._call_later, self._wait, self._on_replaced = cluster, call_later, wait, on_replaced
        self._faults: dict[Fault, None] = {}

    def heal(self) -> None:
        """End the faults of the register, and let all replicas go on."""
        for fault in list(self._faults):
            fault.heal()
        self._faults.clear()
        for replica in self._cluster.replicas.values():
            replica.to_register.down = False
            replica.to_register.lose_answers = 0
            replica.to_register.delay_s = 0.0

    def _replica_at(self, host: str) -> tuple[SimulatedSet, SimulatedReplica, int]:
        """The set and the replica of a host, and its replica id: they join in the order of their numbers."""
        name, _, number = host.rpartition("-")
        simulated_set = self._cluster.brokers[name]
        assert isinstance(simulated_set, SimulatedSet)
        return simulated_set, self._cluster.replicas[host], int(number)

    async def hand_over(self, step: Step) -> bool:
        """An operator lets the master hand over to this replica.

        Raises:
            RlabError: the handover is refused.
        """
        simulated_set, replica, replica_id = self._replica_at(step.who)
        master = simulated_set.master
        if master is None or master is replica:
            return False
        with self._cluster.simulation.on_host(master.host):
            await anyio.lowlevel.checkpoint()  # a frozen process receives the request only when it runs again
            if master.process is None or master.process.running is None:
                return False
            await master.process.hand_over(replica_id)
        return True

    async def elect(self, step: Step) -> bool:
        """An operator makes this replica the master, if it is in sync and the master does not answer."""
        return await self._elect(step, partial(master_answers, rng=Random(f"operator {self._cluster.simulation.seed}")))

    async def elect_beside(self, step: Step) -> bool:
        """An operator who does not reach the master makes this replica the master, if it is in sync."""

        async def is_away(_: str) -> bool:
            return False

        return await self._elect(step, is_away)

    async def _elect(self, step: Step, answers: Callable[[str], Awaitable[bool]]) -> bool:
        simulated_set, _, replica_id = self._replica_at(step.who)
        with self._cluster.simulation.on_host("operator"):
            await elect(self._cluster.register, simulated_set.name, replica_id, accept_loss=False, answers=answers)
        return True

    async def put_back(self, step: Step) -> bool:
        """Put back a copy of the directory from before the last start; the replica must refuse to start on it."""
        simulated_set, replica, replica_id = self._replica_at(step.who)
        if not replica.serves:
            return False
        directory = self._cluster.data_dir / replica.name
        old, newest = directory.with_name(f"{replica.name}.old"), directory.with_name(f"{replica.name}.newest")
        await _end(replica)
        shutil.copytree(directory, old)
        await replica.start()
        await self._wait(step.for_s)
        await _end(replica)
        if not await self._is_old(old, simulated_set.name, replica_id):
            shutil.rmtree(old)  # the process in between was killed before it counted its start
            await replica.start()
            return False
        directory.rename(newest)
        old.rename(directory)
        self._on_replaced(directory)
        replica.has_old_copy = True
        try:
            with suppress(OldReplica):
                await replica.start()
                await self._wait(OLD_COPY_S)
            await _end(replica)
        finally:
            replica.has_old_copy = False
            shutil.rmtree(directory)
            newest.rename(directory)
            self._on_replaced(directory)
        await replica.start()
        return True

    async def _is_old(self, directory: Path, name: str, replica_id: int) -> bool:
        """Whether the register has counted more starts than a directory."""
        row, identity = await self._cluster.register.read(name), read_identity(directory, Files())
        member = None if row is None else row.member(replica_id)
        return identity is not None and member is not None and identity.incarnation < member.incarnation

    async def freeze_master(self, step: Step) -> bool:
        """The process of the master of this replica's set is frozen: its clocks go on, and it runs no instruction."""
        master = self._replica_at(step.who)[0].master
        return master is not None and self._stands_still(step, self._cluster.simulation.network.freeze, master.host)

    async def pause_vm(self, step: Step) -> bool:
        """The machine of this replica is paused: its monotonic clock stops, and its wall clock goes on."""
        return self._stands_still(step, self._cluster.simulation.network.pause_machine, step.who)

    def _stands_still(self, step: Step, begin: Callable[[str], Fault], host: str) -> bool:
        if not self._cluster.replicas[host].serves or self._cluster.simulation.network.standstill.stands(host):
            return False
        fault = begin(host)
        self._faults[fault] = None
        if step.for_s:
            self._call_later(step.for_s, fault.heal)
        return True

    async def fail_all_but_one(self) -> list[str]:
        """In each set spare one in-sync replica, and disturb all others until `heal`.

        Returns the hosts that clients can no longer reach.

        Cancellation: processes that were killed may not have ended.
        """
        network, rng = self._cluster.simulation.network, self._cluster.simulation.random
        failed_hosts: list[str] = []
        killed: list[SimulatedReplica] = []
        for name in self._cluster.brokers:
            row = await self._cluster.register.read(name)
            assert row is not None, "the set was made"
            survivor = f"{name}-{rng.choice(row.in_sync)}"
            for replica in self._cluster.replicas.values():
                host = replica.host
                if self._replica_at(host)[0].name != name or host == survivor:
                    continue
                how = rng.choice(("killed", "frozen", "paused", "cut off", "cannot send", "cannot receive"))
                if how in ("cannot send", "cannot receive"):  # to or from the survivor
                    way = (host, survivor) if how == "cannot send" else (survivor, host)
                    self._faults[network.partition(*way, one_way=True)] = None
                    continue
                failed_hosts.append(host)
                if how == "killed" and replica.can_be_killed:
                    replica.kill()
                    killed.append(replica)
                elif how == "frozen":
                    self._faults[network.freeze(host)] = None
                elif how == "paused":
                    self._faults[network.pause_machine(host)] = None
                else:
                    self.cut_off(host)
                    self._faults[network.stall(host)] = None
        for replica in killed:
            await replica.crash()
        return failed_hosts

    # --- the register ------------------------------------------------------------------------------------------------

    def cut_off(self, host: str, *, answers_only: bool = False) -> Fault | None:
        """Cut the path of a replica to the register, or only the path of the answers; None for another host."""
        replica = self._cluster.replicas.get(host)
        if replica is None:
            return None
        name = "loses_all_answers" if answers_only else "down"
        setattr(replica.to_register, name, True)
        return Fault(self._faults, f"register of {host}", partial(setattr, replica.to_register, name, False))

    async def cut_register(self, step: Step) -> bool:
        """This replica does not reach the register, or `one_way` gets no answer from it."""
        fault = self.cut_off(step.who, answers_only=step.one_way)
        assert fault is not None, "it is a replica"
        if step.for_s:
            self._call_later(step.for_s, fault.heal)
        return True

    async def delay_register(self, step: Step) -> bool:
        """The requests of this replica to the register take long, and so do the answers."""
        faults = self._replica_at(step.who)[1].to_register
        faults.delay_s = step.by_s
        # No `Fault` is kept for it: `heal` sets the delays of all replicas to 0.
        if step.for_s:
            self._call_later(step.for_s, partial(setattr, faults, "delay_s", 0.0))
        return True

    async def lose_register_answers(self, step: Step) -> bool:
        """The next writes of this replica are made, and their answers are lost."""
        self._replica_at(step.who)[1].to_register.lose_answers = step.n
        return True


async def _end(replica: SimulatedReplica) -> None:
    """Kill a replica, unless it is down or was killed already."""
    if replica.serves:
        await replica.crash()
    while not replica.is_down:  # noqa: ASYNC110 - virtual time costs nothing
        await anyio.sleep(0.05)
