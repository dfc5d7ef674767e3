"""The options of servers for access control and TLS: on a network, a server needs `--access` or `--insecure`.

HTTP ports have the same rule, and a key of their own: HTTP has no handshake that proves a key without sending it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from model.errors import ConfigError
from remoting.address import is_loopback, parse_address

if TYPE_CHECKING:
    from remoting.security.access_file import AccessFile
    from remoting.security.key import Key
    from remoting.security.tls.certificates import TlsFiles
    from remoting.security.tls.on_demand import GrpcTls

TlsCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE.pem", help="Certificate of this server: it takes connections over TLS only."),
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Private key of --tls-cert.")]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE.pem", help="Ask clients for a certificate that this authority has signed."),
]
GrpcTlsText = Annotated[
    str | None,
    typer.Option(
        "--grpc-tls",
        metavar="auto|off|FILE.pem",
        help="Serve clients that begin with TLS on the same port, as clients of RocketMQ 5 for Java and Go do: with a "
        "certificate that is made in memory, not at all, or with certificate and key of a file. auto, where only this "
        "machine connects, else off. With --tls-cert all connections have that certificate.",
    ),
]
Access = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml", help="Users, their keys and rights; only these are served, see docs/security.md."
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Listen on a network without --access or a key: everyone who reaches the port may do anything.",
    ),
]


def read_access(access: Path | None, listen: str, insecure: bool) -> AccessFile | None:
    """The access file of a server.

    Raises:
        ConfigError: the server would listen on a network without an access file.
    """
    if access is None:
        if not insecure and not is_loopback(parse_address(listen)[0]):
            raise ConfigError(
                f"--listen {listen}: all who reach this address could read, change and delete everything here. Give "
                "the server users and keys with --access FILE, or pass --insecure if the network keeps others out "
                "(docs/security.md)"
            )
        return None
    from remoting.security.access_file import AccessFile

    return AccessFile(access)


def read_http_port_key(
    listen: str | None, insecure: bool, option: str = "--listen", *, certificates: bool = False
) -> Key | None:
    """The key of an HTTP port, from RLAB_HTTP_KEY_FILE or RLAB_HTTP_KEY; None if neither is set, or without a port.

    Args:
        listen: the address of the port; None without a port.
        insecure: whether the option --insecure was given.
        option: the name of the option with the address, for errors.
        certificates: whether clients have to show a certificate, which replaces the key.

    Raises:
        ConfigError: the port would be open to a network without a key or a certificate.
    """
    from remoting.security.login import read_http_key

    if listen is None:
        return None
    key = read_http_key()
    if key is None and not insecure and not certificates and not is_loopback(parse_address(listen)[0]):
        raise ConfigError(
            f"{option} {listen}: everyone who reaches this address could read its pages. Name a key file in "
            "RLAB_HTTP_KEY_FILE ('rlab key new' makes one), or pass --insecure if the network keeps others out "
            "(docs/security.md)"
        )
    return key


def read_tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    """The certificates of a server.

    Raises:
        ConfigError: the certificate or its key is missing.
    """
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise ConfigError("TLS takes both --tls-cert and --tls-key")
    from remoting.security.tls.certificates import TlsFiles

    return TlsFiles(cert=cert, key=key, client_ca=client_ca)


def grpc_tls_of(value: str | None, cert: Path | None) -> GrpcTls:
    """What a server does with clients that begin with TLS; None for the default.

    Raises:
        ConfigError: all connections use TLS already, or the file does not exist.
    """
    if value is None:
        return None
    if cert is not None:
        raise ConfigError("--grpc-tls: with --tls-cert every connection is encrypted; leave one of the two out")
    from remoting.security.tls.on_demand import TlsChoice

    if value in list(TlsChoice):
        return TlsChoice(value)
    if not Path(value).exists():
        raise ConfigError(f"--grpc-tls {value}: write auto, off, or the name of a file; {value} does not exist")
    return Path(value)


class Secured(NamedTuple):
    """The options of a server's configuration for access control and TLS."""

    access: AccessFile | None
    tls: TlsFiles | None
    grpc_tls: GrpcTls


def secured(
    access: Path | None,
    listen: str,
    insecure: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    grpc_tls: str | None,
) -> Secured:
    """Access control and TLS of a server from its command line.

    Raises:
        ConfigError: a file is missing, options exclude each other, or the server would be open to a network.
    """
    return Secured(
        read_access(access, listen, insecure),
        read_tls(tls_cert, tls_key, tls_client_ca),
        grpc_tls_of(grpc_tls, tls_cert),
    )
