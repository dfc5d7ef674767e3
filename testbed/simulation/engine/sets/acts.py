"""The steps of a programme that are done to replica sets: handovers, elections, and faults of the way to the register.

Each is a method with the name of its verb, and returns whether it could be done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from model.errors import RegisterUnavailable
from model.replica_set import SetChanged
from replica.sets import SetRefusal, elected
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.sets import SimulatedReplica, SimulatedSet
from testbed.simulation.engine.programme import Step


class SetActs:
    """The steps of one run."""

    def __init__(self, cluster: SimulatedCluster, later: Callable[[float, Callable[[], object]], None]) -> None:
        """`later` calls a function after a time, unless everything is healed before."""
        self._cluster, self._later = cluster, later

    def heal(self) -> None:
        """End the faults of the register."""
        for replica in self._cluster.replicas.values():
            replica.to_register.down = False
            replica.to_register.lose_answers = 0

    def _found(self, host: str) -> tuple[SimulatedSet, SimulatedReplica, int]:
        """The set and the replica of a host, and its replica id: they join in the order of their numbers."""
        name, _, number = host.rpartition("-")
        found = self._cluster.brokers[name]
        assert isinstance(found, SimulatedSet)
        return found, self._cluster.replicas[host], int(number)

    async def hand_over(self, step: Step) -> bool:
        """An operator lets the master hand over to this replica. Raises RlabError: it is refused."""
        found, replica, replica_id = self._found(step.who)
        master = found.master
        if master is None or master is replica:
            return False
        with self._cluster.simulation.on_host(master.host):
            await master.running.hand_over(replica_id)
        return True

    async def elect(self, step: Step) -> bool:
        """An operator makes this replica the master, if it is in sync and the master does not run."""
        found, _, replica_id = self._found(step.who)
        register = self._cluster.register
        row = await register.read(found.name)
        if row is None:
            return False
        answers = any(each.serves for each in found.replicas if each.name.endswith(f"-{row.master}"))
        try:
            await register.write(elected(row, replica_id, accept_loss=False, master_answers=answers), row.version)
        except (SetRefusal, SetChanged, RegisterUnavailable):
            return False
        return True

    async def cut_register(self, step: Step) -> bool:
        """This replica does not reach the register."""
        faults = self._found(step.who)[1].to_register
        faults.down = True
        if step.for_s:
            self._later(step.for_s, partial(setattr, faults, "down", False))
        return True

    async def lose_register_answers(self, step: Step) -> bool:
        """The next writes of this replica are made, and their answers are lost."""
        self._found(step.who)[1].to_register.lose_answers = step.n
        return True
