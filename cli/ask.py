"""Runs the calls of an `Admin` as a command: connected, bounded by signals, and with an exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from process.runtime import run

if TYPE_CHECKING:
    from client.admin.admin import Admin

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
