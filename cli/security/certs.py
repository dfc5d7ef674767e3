"""`rlab certs`: a certificate authority for tests, and certificates that it signs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import Config, Json
from process.output import print_note, print_outcome
from process.runtime import exit_with_error
from testbed.cluster.certificates import AUTHORITY, make_certificate


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("certs")(certs)


def certs(
    directory: Annotated[
        Path, typer.Argument(show_default=False, help="Where they go; an authority that is there is used.")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Host name or address of the certificate; may be repeated."),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the files.")] = "server",
    days: Annotated[int, typer.Option(metavar="N", min=1, help="Days for which it is valid.")] = 30,
    json: Json = False,
    config: Config = None,
) -> None:
    """Make a certificate for servers of a test, or for their clients, and first an authority that signs it.

    Run it again for another certificate, or to replace one: servers take the new files within 2 s. The key of the
    authority lies beside them, so everyone who can read the directory can pretend to be any server: use it for tests.

    Example: rlab certs tls --host broker-a --host 10.0.0.2 --name broker-a
    """
    with exit_with_error():
        cert, key = make_certificate(directory, name, host or ["localhost", "127.0.0.1", "::1"], days)
    authority = directory / AUTHORITY
    line = {"authority": str(authority), "cert": str(cert), "key": str(key)}
    text = f"--tls-cert {cert} --tls-key {key}\nRLAB_TLS_CA={authority}"
    print_outcome(line, text, as_json=json)
    print_note("note: the first line is for servers, the second one for their clients")
