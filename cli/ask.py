"""Runs calls of an `Admin`, or of a register, as a command: connects, stops at a signal, and sets the exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from process.runtime import run
from remoting.address import parse_addresses

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from remoting.security.key import Key
    from replica.register import Register
    from replica.registers.etcd import EtcdRegister
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


def ask_register(name_servers: str, register_location: str | None, call: Callable[[Register], Awaitable[T]]) -> T:
    """Run a call at the register of a cluster, and return its result.

    Raises:
        typer.Exit: it failed or was stopped; the error has been printed.
    """

    async def main() -> T:
        async with register_at(parse_addresses(name_servers), register_location) as register:
            return await call(register)

    return run(main)


def register_at(
    name_servers: Sequence[str], register_location: str | None, key: Key | None = None
) -> RemoteRegister | EtcdRegister:
    """The register of a cluster, to be entered: in etcd if there is a place, else at one of the name servers.

    Raises:
        ConfigError: the place, or the login or the TLS files for it, cannot be used.
    """
    if register_location is None:
        from replica.registers.remote import RemoteRegister

        return RemoteRegister(name_servers, key=key)
    from replica.registers.etcd import EtcdRegister
    from replica.registers.etcd_place import parse_place

    return EtcdRegister(parse_place(register_location))
