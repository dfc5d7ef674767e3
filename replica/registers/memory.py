"""A register in memory, for tests and the simulation, with the faults that a register over a network has.

register = MemoryRegister(register_id=7)
faults = RegisterFaults()
of_replica_2 = register.seen_with(faults)      # the same rows, reached over a faulty network
faults.down = True                             # replica 2 no longer reaches the register
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from model.errors import RegisterUnavailable
from model.replica_set import ReplicaSet, SetChanged, stored_row


@dataclass(slots=True, kw_only=True)
class RegisterFaults:
    """Faults of the way to a register; a test changes them while it runs.

    Attributes:
        down: nothing reaches the register.
        delay_s: seconds that a request takes to the register, and its answer back.
        lose_answers: number of the next writes that are applied, but whose answers are lost.
        loses_all_answers: requests reach the register, and nothing comes back from it.
    """

    down: bool = False
    loses_all_answers: bool = False
    delay_s: float = 0.0
    lose_answers: int = 0


class MemoryRegister:
    """A `Register` whose rows are in this process; `faults` may be changed at any time."""

    def __init__(self, *, register_id: int = 1, faults: RegisterFaults | None = None) -> None:
        self.register_id = register_id
        self.faults = faults or RegisterFaults()
        self._rows: dict[str, ReplicaSet] = {}

    def seen_with(self, faults: RegisterFaults) -> MemoryRegister:
        """A register with the same rows for another caller, which has its own faults."""
        other = MemoryRegister(register_id=self.register_id, faults=faults)
        other._rows = self._rows
        return other

    @property
    def addresses(self) -> tuple[str, ...]:
        """See `Register.addresses`."""
        return ()

    async def read(self, name: str) -> ReplicaSet | None:
        """See `Register.read`."""
        await self._travel()
        row = self._rows.get(name)
        await self._return()
        return row

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        """See `Register.write`."""
        await self._travel()
        current, n_rows = self._rows.get(new.name), len(self._rows)
        row = stored_row(current, new, expected_version, register_id=self.register_id, n_rows=n_rows)
        self._rows[new.name] = row
        if self.faults.lose_answers > 0:
            self.faults.lose_answers -= 1
            raise RegisterUnavailable("the answer of the register is lost: the row may have been written")
        await self._return()
        return row

    async def remove(self, name: str, expected_version: int) -> None:
        """See `Register.remove`."""
        await self._travel()
        current = self._rows.get(name)
        if current is None or current.version != expected_version:
            raise SetChanged(f"set {name} is not at version {expected_version}", current)
        del self._rows[name]
        await self._travel()

    async def rows(self) -> list[ReplicaSet]:
        """See `Register.rows`."""
        await self._travel()
        return [self._rows[name] for name in sorted(self._rows)]

    async def _travel(self) -> None:
        """One way of a request or an answer. Cancellation: harmless."""
        await anyio.sleep(self.faults.delay_s)
        if self.faults.down:
            raise RegisterUnavailable("the register cannot be reached")

    async def _return(self) -> None:
        """The way of an answer. Cancellation: harmless."""
        await self._travel()
        if self.faults.loses_all_answers:
            raise RegisterUnavailable("no answer comes from the register: a row may have been written")
