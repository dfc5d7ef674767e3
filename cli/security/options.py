"""`--access` and `--insecure` of servers: on a network, access control is there or was refused on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from model.errors import ConfigError
from remoting.address import is_loopback, parse_address

if TYPE_CHECKING:
    from remoting.security.gate import AccessFile

Access = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml", help="Users, their keys and rights; only these are served, see docs/security.md."
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen on a network without --access: whoever reaches the port may do anything."),
]


def access_of(access: Path | None, listen: str, insecure: bool) -> AccessFile | None:
    """The access file of a server.

    Raises:
        ConfigError: it would listen on a network, and has none.
    """
    if access is None:
        if not insecure and not is_loopback(parse_address(listen)[0]):
            raise ConfigError(
                f"--listen {listen}: whoever reaches this address could read, change and delete everything here. Give "
                "the server users and keys with --access FILE, or say --insecure if the network keeps others out "
                "(docs/security.md)"
            )
        return None
    from remoting.security.gate import AccessFile

    return AccessFile(access)
