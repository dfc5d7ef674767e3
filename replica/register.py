"""The protocol of a register: one row for each set of replicas, changed by compare-and-set.

Only the row decides which replica is the master of a set, and which may become it. No message waits for the register: a
row is written a few times a day. `registers/` has the implementations.
"""

from __future__ import annotations

from typing import Protocol

from model.replica_set import ReplicaSet


class Register(Protocol):
    """Rows of replica sets by broker name; every read sees the last write that was answered."""

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
            RegisterUnavailable: it may have been written or not. Read the row again before any other decision: a
                row equal to the one that was to be written, with the version behind the expected one, was written.

        Cancellation: it may have been written or not.
        """

    async def rows(self) -> list[ReplicaSet]:
        """All rows, sorted by name.

        Raises:
            RegisterUnavailable: the register cannot be asked now.

        Cancellation: harmless.
        """
