"""Runs the calls of an `Admin`, or of a register, as a command: connected, bounded by signals, with an exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from process.runtime import run
from remoting.address import parse_addresses

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from model.replica_set import ReplicaSet
    from replica.registers.remote import RemoteRegister

T = TypeVar("T")


def ask_cluster(name_servers: str, call: Callable[[Admin], Awaitable[T]], dialect: str = "auto") -> T:
    """Run calls of an `Admin`, such as `lambda admin: admin.groups()`, and return their result.

    Raises:
        typer.Exit: it failed or was stopped; the error has been printed.
    """
    from client.admin.admin import Admin

    async def main() -> T:
        async with Admin(name_servers, dialect=dialect) as admin:
            return await call(admin)

    return run(main)


def ask_register(name_servers: str, call: Callable[[RemoteRegister], Awaitable[ReplicaSet]]) -> ReplicaSet:
    """Run a call at the register of a cluster, and return the row.

    Raises:
        typer.Exit: it failed or was stopped; the error has been printed.
    """
    from replica.registers.remote import RemoteRegister

    async def main() -> ReplicaSet:
        async with RemoteRegister(parse_addresses(name_servers)) as register:
            return await call(register)

    return run(main)
