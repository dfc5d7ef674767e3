"""`--access` and `--insecure` of servers: on a network, access control is there or was refused on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from model.errors import ConfigError
from remoting.address import is_loopback, parse_address

if TYPE_CHECKING:
    from remoting.security.gate import AccessFile
    from remoting.security.tls import TlsFiles

TlsCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE.pem", help="Certificate of this server: it takes connections over TLS only."),
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Private key of --tls-cert.")]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE.pem", help="Ask clients for a certificate that this authority has signed."),
]
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


def tls_of(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    """The certificates of a server.

    Raises:
        ConfigError: one of them is missing.
    """
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise ConfigError("TLS takes both --tls-cert and --tls-key")
    from remoting.security.tls import TlsFiles

    return TlsFiles(cert=cert, key=key, client_ca=client_ca)
