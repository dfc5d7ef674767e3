"""Changes an operator makes in the row of a set when no master can: another master, or a member that is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from model.errors import InvalidParameter
from model.replica_set import ReplicaSet, SetChanged
from replica.register import Register, write_until_answered
from replica.sets import elected, forgotten

WITHIN_S = 10.0
"""How long an operator waits for a register that does not answer."""


async def elect(
    register: Register,
    name: str,
    replica_id: int,
    *,
    accept_loss: bool,
    answers: Callable[[str], Awaitable[bool]],
) -> ReplicaSet:
    """Make a replica the master of a set; returns the new row.

    `answers` finds out whether the master at an address is there: then a handover is the way that loses nothing.

    Raises:
        InvalidParameter: there is no such set.
        SetRefusal: its subclass is the reason.
        RegisterUnavailable: the register does not answer; the replica may be elected.

    Cancellation: as for RegisterUnavailable.
    """

    async def decide(row: ReplicaSet) -> ReplicaSet:
        address = None if accept_loss else row.master_address
        return elected(
            row,
            replica_id,
            accept_loss=accept_loss,
            master_answers=address is not None and await answers(address),
        )

    return await _change(register, name, decide)


async def forget_replica(register: Register, name: str, replica_id: int) -> ReplicaSet:
    """Remove a member that will not return. Raises and cancellation: as `elect`."""

    async def decide(row: ReplicaSet) -> ReplicaSet:
        return forgotten(row, replica_id)

    return await _change(register, name, decide)


async def _change(register: Register, name: str, decide: Callable[[ReplicaSet], Awaitable[ReplicaSet]]) -> ReplicaSet:
    row = await register.read(name)
    while row is not None:
        try:
            return await write_until_answered(register, await decide(row), row.version, within_s=WITHIN_S)
        except SetChanged as changed:
            row = changed.current
    raise InvalidParameter(f"the register has no set {name!r}: only a broker that was started with --copies has one")
