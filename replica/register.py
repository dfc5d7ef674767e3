"""The protocol of a register: one row for each set of replicas, changed by compare-and-set.

Only the row decides which replica is the master of a set, and which may become it. No message waits for the register: a
row is written a few times a day. `registers/` has the implementations.
"""

from __future__ import annotations

from typing import Protocol

import anyio

from model.errors import RegisterUnavailable
from model.replica_limits import REGISTER_RETRY_S
from model.replica_set import ReplicaSet, SetChanged, was_written


class Register(Protocol):
    """Rows of replica sets by broker name; every read sees the last write that was answered."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` of each of its servers; empty if they are not known."""
        ...

    async def read(self, name: str) -> ReplicaSet | None:
        """The row of a set, or None if there is none.

        Raises:
            RegisterUnavailable: the register cannot be asked now.

        Cancellation: harmless.
        """

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        """Replace the row of version `expected_version`, or make the first one with 0; returns the row as stored.

        Raises:
            SetChanged: the row has another version; nothing was written.
            IllegalOperation: the row may not follow the stored one (`stored_row` has the rules); nothing was written.
            RegisterUnavailable: it may have been written or not, or may be written later, when a request that is still
                under way arrives. `write_until_answered` finds out.

        Cancellation: as for RegisterUnavailable.
        """

    async def remove(self, name: str, expected_version: int) -> None:
        """Remove the row of a set that has this version.

        Raises:
            SetChanged: it has another version, or the register has no such row.
            RegisterUnavailable: it may be removed or not, or later.

        Cancellation: as for RegisterUnavailable.
        """

    async def rows(self) -> list[ReplicaSet]:
        """All rows, sorted by name.

        Raises:
            RegisterUnavailable: the register cannot be asked now.

        Cancellation: harmless.
        """


async def write_until_answered(
    register: Register, new: ReplicaSet, expected_version: int, *, within_s: float
) -> ReplicaSet:
    """Write a row, again and again until there is an answer; returns the row as stored.

    The same write, repeated, is applied once: the version that it expects is gone afterwards. So an answer is definite,
    even while an earlier request is under way: whenever that one arrives, it changes nothing. To read the row instead
    would not be enough: the write could arrive after the read.

    Raises:
        SetChanged: another replica has changed the row; this write was not applied.
        IllegalOperation: the row may not follow the stored one.
        RegisterUnavailable: no answer in `within_s` seconds; it may be written now, later, or never.

    Cancellation: as for RegisterUnavailable.
    """
    deadline = anyio.current_time() + within_s
    while True:
        try:
            return await register.write(new, expected_version)
        except SetChanged as changed:
            if changed.current is not None and was_written(new, expected_version, changed.current):
                return changed.current
            raise
        except RegisterUnavailable:
            if anyio.current_time() + REGISTER_RETRY_S >= deadline:
                raise
            await anyio.sleep(REGISTER_RETRY_S)
