"""Changes of a set that need no master: an operator elects a replica, or removes a member that will not return.

A change replaces the row of the set in the register by compare-and-set; replicas read the row there, within a second.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from model.errors import InvalidParameter, NetworkError, RlabError
from model.replica_set import ReplicaSet, SetChanged
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from replica.register import Register, write_until_answered
from replica.sets import elected, forgotten

WITHIN_S = 10.0
"""How long a write is repeated to a register that does not answer."""
MASTER_ANSWERS_S = 3.0
"""Timeout of the request that finds out whether a master answers."""


async def master_answers(address: str, *, rng: random.Random | None = None) -> bool:
    """Whether a process answers at the address of a master, even with an error. Cancellation: harmless."""
    async with RemotingClient(rng=rng) as client:
        try:
            await client.request(address, RequestCode.GET_SERVER_STATE, timeout_s=MASTER_ANSWERS_S)
        except NetworkError:
            return False
        except RlabError:
            return True
        return True


async def elect(
    register: Register,
    name: str,
    replica_id: int,
    *,
    accept_loss: bool,
    answers: Callable[[str], Awaitable[bool]],
) -> ReplicaSet:
    """Make a replica the master of a set; returns the new row.

    `answers` checks whether the master answers. If it does, the election is refused: a handover loses no message.

    Raises:
        InvalidParameter: there is no such set.
        SetRefusal: the row does not allow this change; the subclass is the reason.
        RegisterUnavailable: the register does not answer; the replica may have become the master, or may become it.

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
    # Compare-and-set: if another writer was faster, decide again on the row that it has stored.
    row = await register.read(name)
    while row is not None:
        try:
            return await write_until_answered(register, await decide(row), row.version, within_s=WITHIN_S)
        except SetChanged as changed:
            row = changed.current
    raise InvalidParameter(f"the register has no set {name!r}: only a broker that was started with --copies has one")
